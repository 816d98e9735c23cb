package cluster

import (
	"context"
	"encoding/json"
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
	for ctx.Err() == nil {
		changed := m.edited.Next()
		wants := len(m.rules.Load().share) > 0
		var again <-chan time.Time
		switch {
		case !wants && release != nil:
			m.announce(nil)
			release()
			release = nil
		case wants && release == nil:
			release = m.lock()
			again = time.After(lockEvery)
		}
		if release != nil {
			m.follow(ctx, changed)
			continue
		}
		select {
		case <-changed:
		case <-again:
		case <-ctx.Done():
		}
	}
}

// lock takes the lock of the routers that share; nil if another one has it.
func (m *member) lock() (release func()) {
	release, err := m.identity.TryShare()
	problem := ""
	if err != nil {
		problem = err.Error()
	}
	m.mu.Lock()
	changed := problem != m.cantShare
	m.cantShare = problem
	m.mu.Unlock()
	if changed {
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
	m.mu.Lock()
	m.leftOut = leftOut
	m.mu.Unlock()
	m.endStreams()
	m.node.changed.Notify()
}

// shares reports whether the rules and the announcement let other nodes call a server.
func (m *member) shares(server string) bool {
	announced := slices.ContainsFunc(m.directory.Own(), func(s directory.Server) bool { return s.Name == server })
	return announced && m.rules.Load().shares(server)
}

// maxLoad bounds the bytes of a load. Servers that are left out count as ready.
const maxLoad = 48 << 10

// loads returns the load of this router.
func (m *member) loads() []byte {
	load, size := roster.Load{Servers: map[string]roster.ServerLoad{}}, 0
	for _, s := range m.directory.Own() {
		state, calls, waiting := m.node.options.Host.State(s.Name)
		one := roster.ServerLoad{State: string(state), Calls: calls, Waiting: waiting}
		if state == status.Ready {
			one.State = ""
		}
		if size += len(s.Name) + 64; one != (roster.ServerLoad{}) && size < maxLoad {
			load.Servers[s.Name] = one
		}
	}
	text, _ := json.Marshal(load) // of strings and numbers
	return text
}
