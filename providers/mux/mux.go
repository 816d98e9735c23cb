// Package mux combines several providers of tools into one.
//
//	all, err := mux.New("all", router, functions, models)
//
// A [Mux] is an [adapter.ProviderAdapter] itself, so that a program needs one provider only.
package mux

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/internal/inprocess"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

// A Mux is several providers as one: one catalog, one ranking, one signal of changes. A Mux may be in
// a Mux.
//
// # IDs
//
// A tool keeps its ID, "server:name", while only one provider has a server of that name. Else the
// tools of all these providers have qualified IDs, "provider/server:name"; likewise if a server's
// name begins with a provider's name and a slash. IDs do not depend on the order in which tools
// came. [Mux.Tool] knows each tool by its qualified ID too: a program that stores IDs should store
// qualified ones.
//
// # Failover
//
// A call goes to the provider that has the tool. If that can't answer, a tool of another provider is
// called, in the order of New: a tool of the same name that takes the arguments, or, for a language
// model, a model with all its capabilities. This is done only if the call did not reach the first
// provider, or if the hints say that a second call does no harm. Only a read-only tool replaces a
// read-only tool. A destructive tool is never replaced and never replaces another. The result's
// _meta then has degraded, and its execution_path names the tools that were called. Its "provider"
// is the one that answered.
//
// A provider that is down, hangs or panics does not harm the others: its last known tools stay, and
// calls of them fail.
type Mux struct {
	*store
	registry  *registry.Registry
	providers []*source
	stop      context.CancelFunc
	running   sync.WaitGroup // followers, calls and questions for health

	routes atomic.Pointer[map[string]route] // by the tool's ID here

	listing sync.Mutex // guards the lists of the providers; the registry changes under it, to be in step

	mu     sync.Mutex // guards closed; running grows only while closed is false
	closed bool
}

// A source is a provider of a Mux.
type source struct {
	adapter.ProviderAdapter
	name string
	list []*registry.NormalizedTool // last known; guarded by Mux.listing, and changed under turn only

	turn    sync.Mutex      // guards changed; one goroutine at a time asks for the tools
	changed <-chan struct{} // closed when list is out of date; nil if the provider has no signal
}

// A route is the provider of a tool.
type route struct {
	to   *source
	tool *registry.NormalizedTool // as the provider has it
}

// New returns the providers as one, with the tools that they have now. The Mux closes them. It is an
// error, and New closes nothing, if two have the same name, or if a name is empty or contains a
// slash or a colon.
func New(name string, providers ...adapter.ProviderAdapter) (*Mux, error) {
	m := &Mux{registry: registry.New()}
	m.store = inprocess.NewStore(name, m.registry, servers{m}, selector.Options{}, m.adoptAll)
	for _, p := range providers {
		if p == nil {
			return nil, errors.Join(fmt.Errorf("mux %q: a provider is nil", name), m.store.Close())
		}
		next := &source{ProviderAdapter: p, name: p.Name()}
		switch {
		case next.name == "" || strings.ContainsAny(next.name, "/:"):
			return nil, errors.Join(fmt.Errorf("mux %q: %q is not a name for a provider", name, next.name), m.store.Close())
		case slices.ContainsFunc(m.providers, func(o *source) bool { return o.name == next.name }):
			return nil, errors.Join(fmt.Errorf("mux %q: two providers are named %q", name, next.name), m.store.Close())
		}
		m.providers = append(m.providers, next)
	}
	m.routes.Store(new(map[string]route))
	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	m.running.Go(func() { m.store.Run(ctx) })
	for _, p := range m.providers {
		m.adopt(p)
		m.running.Go(func() { m.follow(ctx, p) })
	}
	return m, nil
}

type store = inprocess.Store

var _ adapter.ProviderAdapter = (*Mux)(nil)

// guard calls a provider, and returns the reason if it panics.
func guard(call func()) (reason any) {
	defer func() { reason = recover() }()
	call()
	return nil
}

// follow adopts the provider's tools at each change until ctx ends.
func (m *Mux) follow(ctx context.Context, p *source) {
	for {
		select {
		case <-m.adopt(p): // never, if the provider has no signal
		case <-ctx.Done():
			return
		}
	}
}

// adoptAll adopts all changes so far, so that a caller that has changed a provider's tools sees them.
func (m *Mux) adoptAll() {
	for _, p := range m.providers {
		m.adopt(p)
	}
}

// adopt updates the catalog if the provider's tools have changed, and returns their next change.
func (m *Mux) adopt(p *source) <-chan struct{} {
	if inner, ok := p.ProviderAdapter.(*Mux); ok {
		inner.adoptAll()
	}
	p.turn.Lock()
	defer p.turn.Unlock()
	if p.changed != nil && !signal.IsClosed(p.changed) {
		return p.changed
	}
	p.changed = nil
	guard(func() { p.changed = p.Changed() })
	var tools []*registry.NormalizedTool
	panicked := guard(func() { tools = slices.Clone(p.Tools()) })
	tools = slices.DeleteFunc(tools, func(t *registry.NormalizedTool) bool { return t == nil })
	if panicked == nil && !slices.Equal(tools, p.list) {
		m.list(p, tools)
	}
	return p.changed
}

// list replaces the provider's tools in the catalog.
func (m *Mux) list(p *source, tools []*registry.NormalizedTool) {
	m.listing.Lock()
	defer m.listing.Unlock()
	p.list = tools
	offers, routes := merged(m.providers)
	before := *m.routes.Load()
	both := make(map[string]route, len(before)+len(routes)) // so that no tool is ever without its route
	maps.Copy(both, before)
	maps.Copy(both, routes)
	m.routes.Store(&both)
	for _, t := range m.registry.Snapshot().Tools() {
		if _, stays := offers[t.Server]; !stays {
			offers[t.Server] = registry.Offer{}
		}
	}
	_, _ = m.registry.ReplaceSome(offers) // it can't fail: see merged
	m.routes.Store(&routes)
}

// merged returns the offers of servers by their names in the Mux, and the route of each tool. Of a
// provider's tools with the same server and name, the first is kept.
func merged(providers []*source) (offers map[string]registry.Offer, routes map[string]route) {
	owners := make(map[string]map[*source]bool) // by server
	for _, p := range providers {
		for _, t := range p.list {
			if owners[t.Server] == nil {
				owners[t.Server] = make(map[*source]bool)
			}
			owners[t.Server][p] = true
		}
	}
	ambiguous := func(server string) bool {
		prefix, _, nested := strings.Cut(server, "/")
		return len(owners[server]) > 1 || nested && slices.ContainsFunc(providers, func(p *source) bool { return p.name == prefix })
	}
	offers, routes = make(map[string]registry.Offer), make(map[string]route)
	for _, p := range providers {
		for _, t := range p.list {
			ours := *t
			if ambiguous(t.Server) {
				ours.Server = qualified(p, t.Server)
			}
			ours.ID = registry.ID(ours.Server, ours.Name)
			if _, twice := routes[ours.ID]; twice {
				continue
			}
			routes[ours.ID] = route{p, t}
			offer := offers[ours.Server]
			offer.Tools = append(offer.Tools, ours)
			offers[ours.Server] = offer
		}
	}
	return offers, routes
}

func qualified(p *source, server string) string { return p.name + "/" + server }

// Tool returns the tool of that ID, qualified or not.
func (m *Mux) Tool(id string) (*registry.NormalizedTool, bool) {
	m.adoptAll()
	return m.known(id)
}

// known returns the tool of that ID, as of the last change that was adopted.
func (m *Mux) known(id string) (*registry.NormalizedTool, bool) {
	if t, ok := m.registry.Snapshot().Tool(id); ok {
		return t, true
	}
	name, plain, nested := strings.Cut(id, "/")
	if !nested {
		return nil, false
	}
	t, ok := m.registry.Snapshot().Tool(plain)
	if r, known := (*m.routes.Load())[plain]; ok && known && r.to.name == name {
		return t, true
	}
	return nil, false
}

// enter counts a goroutine or call that Close waits for, or reports false if the Mux is closed.
func (m *Mux) enter() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.closed {
		m.running.Add(1)
	}
	return !m.closed
}

// Health asks all providers at once. One that has not answered when ctx ends is down.
func (m *Mux) Health(ctx context.Context) adapter.Health {
	parts := make([]adapter.Health, len(m.providers))
	type answer struct {
		i int
		h adapter.Health
	}
	answers := make(chan answer, len(parts))
	for i, p := range m.providers {
		parts[i] = adapter.Health{Name: p.name, State: adapter.Down, Reason: "it did not answer in time"}
		if !m.enter() {
			return adapter.Health{Name: m.Name(), State: adapter.Down, Reason: "it is closed"}
		}
		go func() {
			defer m.running.Done()
			var h adapter.Health
			if reason := guard(func() { h = p.Health(ctx) }); reason != nil {
				h = adapter.Health{Name: p.name, State: adapter.Down, Reason: fmt.Sprintf("it panicked: %v", reason)}
			}
			answers <- answer{i, h}
		}()
	}
	for range parts {
		select {
		case a := <-answers:
			parts[a.i] = a.h
		case <-ctx.Done():
			return adapter.CombineHealth(m.Name(), len(m.Tools()), parts)
		}
	}
	return adapter.CombineHealth(m.Name(), len(m.Tools()), parts)
}

// Close closes all providers at once, and waits for them and for all calls.
func (m *Mux) Close() error {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.stop()
	errs := make([]error, len(m.providers))
	var closing sync.WaitGroup
	for i, p := range m.providers {
		closing.Go(func() {
			var err error
			if reason := guard(func() { err = p.Close() }); reason != nil {
				err = fmt.Errorf("it panicked: %v", reason)
			}
			if err != nil {
				errs[i] = fmt.Errorf("close provider %q: %w", p.name, err)
			}
		})
	}
	closing.Wait()
	m.running.Wait()
	return errors.Join(errs...)
}

// note adds the provider that answered and the tools that were called to a result's _meta. It
// replaces Tool by the Mux's.
func (m *Mux) note(r selector.Result, asked []string, last route) selector.Result {
	provider := last.to.name
	meta := r.Meta()
	if inner, ok := wire.String(wire.Member(meta, "provider")); ok && inner != "" {
		provider += "/" + inner
	}
	if !wire.IsObject(meta) {
		meta = []byte("{}")
	}
	meta = wire.SetMember(meta, "provider", wire.Marshal(provider))
	if len(asked) > 1 {
		meta = wire.SetMember(meta, "degraded", []byte("true"))
		meta = wire.SetMember(meta, "execution_path", wire.Marshal(append([]string{"local"}, asked...)))
	}
	if wire.IsObject(r.JSON) {
		r.JSON = wire.SetMember(r.JSON, "_meta", meta)
	}
	if r.Tool != nil {
		r.Tool, _ = m.known(qualified(last.to, r.Tool.ID))
	}
	return r
}
