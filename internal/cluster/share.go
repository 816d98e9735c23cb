package cluster

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/cluster/internal/directory"
	"github.com/mcp-metarouter/metarouter/internal/cluster/internal/roster"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/signal"
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
		edited := m.edited.Next()
		wants := len(m.rules.Load().share) > 0
		var changed <-chan struct{}
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
			var offers map[string]clusternode.Offer
			offers, changed = m.node.options.Host.Offers()
			m.announce(offers)
			again = nil
		}
		select {
		case <-changed:
			signal.Within(ctx.Done(), quiet)
		case <-edited:
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

// announce announces the offers that the rules share.
func (m *member) announce(offers map[string]clusternode.Offer) {
	rules, shared := m.rules.Load(), map[string]clusternode.Offer{}
	for name, o := range offers {
		if matches(rules.share, name) && directory.IsServerName(name) {
			shared[name] = o
		}
	}
	leftOut := m.directory.Share(shared)
	for _, text := range leftOut {
		m.log.Warn("left out a server", zap.String("reason", text))
	}
	m.mu.Lock()
	m.leftOut = leftOut
	m.mu.Unlock()
	m.endStreams()
	m.node.changed.Notify()
}

// shares reports whether the rules and the announcement let other nodes call a server. "" is for requests
// of gateways, which trusted nodes may pass on to each router that serves others.
func (m *member) shares(server string) bool {
	if server == "" {
		return m.node.options.Host != nil && !m.node.options.UseOnly
	}
	announced := slices.ContainsFunc(m.directory.Own(), func(s directory.Server) bool { return s.Name == server })
	return announced && matches(m.rules.Load().share, server)
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
