package cluster

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/cluster/internal/directory"
	"github.com/mcp-metarouter/metarouter/cluster/internal/roster"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

const (
	// lockEvery is the time between tries to share, while another router of this user does.
	lockEvery = 2 * time.Second

	// quiet is how long offers must not change before they are announced.
	quiet = 300 * time.Millisecond
)

// shared has the servers that a router shares at the moment. The zero value shares nothing.
type shared struct {
	servers map[string]bool
	leftOut []string
	problem string // why it can't share
}

// share announces the servers of this router, while it has the lock of the routers that share and
// the configuration shares anything.
func (m *member) share(ctx context.Context) {
	if m.node.options.UseOnly {
		return
	}
	var release func()
	defer func() {
		if release != nil {
			release()
		}
	}()
	for {
		changed := m.edited.Next()
		wants := len(m.rules.Load().share) > 0
		switch {
		case wants && release == nil:
			release = m.lock()
		case !wants && release != nil:
			m.announce(nil)
			release()
			release = nil
		}
		if release != nil {
			m.follow(ctx, changed)
		}
		select {
		case <-changed:
		case <-m.pause(wants && release == nil):
		case <-ctx.Done():
			return
		}
	}
}

// pause is when to try to share again; never if there is nothing to try.
func (m *member) pause(again bool) <-chan time.Time {
	if !again {
		return nil
	}
	return time.After(lockEvery)
}

// lock takes the lock of the routers that share; nil if another one has it.
func (m *member) lock() (release func()) {
	release, err := m.identity.TryShare()
	m.mu.Lock()
	defer m.mu.Unlock()
	before := m.shared.problem
	m.shared.problem = ""
	if err != nil {
		m.shared.problem = err.Error()
	}
	if m.shared.problem != before {
		m.node.changed.Notify()
		if err != nil {
			m.log.Warn("can't share servers", zap.Error(err))
		}
	}
	return release
}

// follow announces the servers of the router, until the rules change or ctx ends.
func (m *member) follow(ctx context.Context, changed <-chan struct{}) {
	for {
		offers, next := m.node.options.Host.Offers()
		m.announce(offers)
		select {
		case <-next:
		case <-changed:
			return
		case <-ctx.Done():
			return
		}
		select {
		case <-time.After(quiet):
		case <-ctx.Done():
			return
		}
	}
}

// announce announces the offers that the rules share.
func (m *member) announce(offers map[string]clusternode.Offer) {
	r := m.rules.Load()
	var list []directory.Offering
	for name, o := range offers {
		if !r.shares(name) || !directory.IsServerName(name) {
			continue
		}
		o.Info.PID = 0 // it is of this machine
		list = append(list, directory.Offering{
			Server: directory.Server{Name: name, Terms: o.Terms, Service: o.Service, Tools: len(o.Tools)},
			Definitions: &directory.Definitions{
				Info: o.Info, Tools: directory.Array(o.Tools), Prompts: directory.Array(o.Prompts),
				Resources: directory.Array(o.Resources), Templates: directory.Array(o.Templates),
			},
		})
	}
	leftOut := m.directory.Share(list)
	for _, text := range leftOut {
		m.log.Warn("left out a server", zap.String("reason", text))
	}
	servers := map[string]bool{}
	for _, s := range m.directory.Own() {
		servers[s.Name] = true
	}
	m.mu.Lock()
	m.shared.servers, m.shared.leftOut = servers, leftOut
	m.mu.Unlock()
	m.endStreams()
	m.node.changed.Notify()
}

// shares reports whether the rules and the announcement let other nodes call a server.
func (m *member) shares(server string) bool {
	m.mu.Lock()
	ok := m.shared.servers[server]
	m.mu.Unlock()
	return ok && m.rules.Load().shares(server)
}

// maxLoad bounds the bytes of a load. Servers that are left out count as ready.
const maxLoad = 48 << 10

// loads returns the load of this router.
func (m *member) loads() []byte {
	m.mu.Lock()
	servers := m.shared.servers
	m.mu.Unlock()
	load, size := roster.Load{Servers: map[string]roster.ServerLoad{}}, 0
	for _, name := range slices.Sorted(maps.Keys(servers)) {
		state, calls, waiting := m.node.options.Host.State(name)
		one := roster.ServerLoad{State: string(state), Calls: calls, Waiting: waiting}
		if state == status.Ready {
			one.State = ""
		}
		if size += len(name) + 64; one != (roster.ServerLoad{}) && size < maxLoad {
			load.Servers[name] = one
		}
	}
	text, _ := json.Marshal(load) // of strings and numbers
	return text
}
