// Package mux combines several providers of tools into one.
//
//	all, err := mux.New("all", router, functions, models)
//
// A [Mux] is an [adapter.ProviderAdapter] itself, so that a program that hands out work
// needs to know one provider only.
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
	"time"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/adapter/internal/inprocess"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

// A Mux is several providers as one: one catalog of all their tools, one ranking, one
// signal of changes. It is a provider itself, so a Mux may be in a Mux.
//
// # IDs
//
// A tool keeps its ID, "server:name", while only one provider has a server of that name.
// If several have, the tools of all of them are qualified by their provider,
// "provider/server:name"; likewise if a server's name begins with a provider's name and a
// slash. IDs thus depend on what exists and not on the order in which it came. [Mux.Tool]
// knows every tool by its qualified ID too, so a program that stores IDs should store
// qualified ones.
//
// # Failover
//
// A call goes to the provider that has the tool. If that provider can't answer, a tool of
// another provider is called instead, in the order of New: a tool of the same name that
// takes the arguments, or, for a language model, a model with all its capabilities. The
// Mux does this only if the call did not reach the first provider, or if the hints say
// that a second call does no harm. A read-only tool is replaced only by a read-only tool.
// A tool that is declared destructive is never replaced and never replaces another. The
// result's _meta then has degraded, and its execution_path names the tools that were
// called. Its "provider" is the one that answered.
//
// A provider that is down or panics, or whose calls hang, does not harm the others: its
// last known tools stay, and calls of them fail.
type Mux struct {
	*store
	registry  *registry.Registry
	providers []*member
	stop      context.CancelFunc
	running   sync.WaitGroup // followers, calls and questions for health

	routes atomic.Pointer[map[string]route] // by the tool's ID here

	// listing guards the lists of the providers. The registry changes under it, so that
	// both are in step: with thousands of tools that takes as long as a call may take.
	listing sync.Mutex

	mu     sync.Mutex // guards closed; running grows only while closed is false
	closed bool
}

// A member is a provider of a Mux.
type member struct {
	adapter.ProviderAdapter
	name string
	list []*registry.NormalizedTool // last known; guarded by Mux.listing, and changed under turn only

	turn    sync.Mutex      // guards changed; one goroutine at a time asks for the tools
	changed <-chan struct{} // closed when list is out of date; nil if the provider has no signal
}

// A route is the provider of a tool.
type route struct {
	to   *member
	tool *registry.NormalizedTool // as the provider has it
}

// New returns the providers as one, with the tools that they have now. The Mux closes
// them. It is an error if two have the same name, or if a name is empty or contains a slash
// or a colon; New closes nothing then.
func New(name string, providers ...adapter.ProviderAdapter) (*Mux, error) {
	m := &Mux{registry: registry.New()}
	m.store = inprocess.NewStore(name, m.registry, servers{m}, selector.Options{Experience: m}, m.adoptAll)
	for _, p := range providers {
		if p == nil {
			return nil, errors.Join(fmt.Errorf("mux %q: a provider is nil", name), m.store.Close())
		}
		next := &member{ProviderAdapter: p, name: p.Name()}
		switch {
		case next.name == "" || strings.ContainsAny(next.name, "/:"):
			return nil, errors.Join(fmt.Errorf("mux %q: %q is not a name for a provider", name, next.name), m.store.Close())
		case slices.ContainsFunc(m.providers, func(o *member) bool { return o.name == next.name }):
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

// A store has the tools of a provider that keeps them in this process.
type store = inprocess.Store

var _ adapter.ProviderAdapter = (*Mux)(nil)

// look returns the provider's signal of changes, or nil if the provider panics.
func (p *member) look() (changed <-chan struct{}) {
	defer func() { _ = recover() }()
	return p.Changed()
}

// tools returns the provider's tools, or false if the provider panics.
func (p *member) tools() (tools []*registry.NormalizedTool, ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	return slices.DeleteFunc(slices.Clone(p.Tools()), func(t *registry.NormalizedTool) bool { return t == nil }), true
}

// follow adopts the provider's tools at each change until ctx ends.
func (m *Mux) follow(ctx context.Context, p *member) {
	for {
		select {
		case <-m.adopt(p): // never, if the provider has no signal
		case <-ctx.Done():
			return
		}
	}
}

// adoptAll adopts all changes so far, so that a caller that has changed a provider's tools
// finds them here.
func (m *Mux) adoptAll() {
	for _, p := range m.providers {
		m.adopt(p)
	}
}

// adopt updates the catalog if the provider's tools have changed, and returns the signal of
// their next change.
func (m *Mux) adopt(p *member) <-chan struct{} {
	if inner, ok := p.ProviderAdapter.(*Mux); ok {
		inner.adoptAll()
	}
	p.turn.Lock()
	defer p.turn.Unlock()
	if p.changed != nil {
		select {
		case <-p.changed:
		default:
			return p.changed
		}
	}
	p.changed = p.look()
	if tools, ok := p.tools(); ok && !slices.Equal(tools, p.list) {
		m.list(p, tools)
	}
	return p.changed
}

// list replaces the provider's tools in the catalog.
func (m *Mux) list(p *member, tools []*registry.NormalizedTool) {
	m.listing.Lock()
	defer m.listing.Unlock()
	p.list = tools
	offers, routes := merged(m.providers)
	before := *m.routes.Load()
	both := make(map[string]route, len(before)+len(routes)) // so that no tool is ever without its route
	maps.Copy(both, before)
	maps.Copy(both, routes)
	m.routes.Store(&both)
	_, _ = m.registry.ReplaceAll(offers) // it can't fail: see merged
	m.routes.Store(&routes)
}

// merged returns what each server offers under its name in the Mux, and the route of each
// tool. It depends on the lists of the providers only. Of a provider's tools with the same
// server and name, the first is kept.
func merged(providers []*member) (offers map[string]registry.Offer, routes map[string]route) {
	owners := make(map[string]map[*member]bool) // by server
	for _, p := range providers {
		for _, t := range p.list {
			if owners[t.Server] == nil {
				owners[t.Server] = make(map[*member]bool)
			}
			owners[t.Server][p] = true
		}
	}
	ambiguous := func(server string) bool {
		prefix, _, nested := strings.Cut(server, "/")
		return len(owners[server]) > 1 || nested && slices.ContainsFunc(providers, func(p *member) bool { return p.name == prefix })
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

func qualified(p *member, server string) string { return p.name + "/" + server }

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

// Match returns what providers, such as an [adapter.Router], have learned from use, as
// evidence for a task of these words. It counts in the ranking as it does in theirs.
func (m *Mux) Match(words []string, now time.Time) map[string]float64 {
	all := make(map[string]float64)
	for _, p := range m.providers {
		if e, ok := p.ProviderAdapter.(selector.Experience); ok {
			for id, x := range p.match(e, words, now) {
				if t, ok := m.known(qualified(p, id)); ok {
					all[t.ID] = x
				}
			}
		}
	}
	return all
}

func (p *member) match(e selector.Experience, words []string, now time.Time) map[string]float64 {
	defer func() { _ = recover() }()
	return e.Match(words, now)
}

// Learn notifies the provider of a tool that a client called the tool after it had searched
// for a task; see [adapter.Router.Learn]. Providers that do not learn ignore it.
func (m *Mux) Learn(ctx context.Context, u selector.Use) {
	r, ok := (*m.routes.Load())[u.Tool]
	if !ok {
		return
	}
	if learner, ok := r.to.ProviderAdapter.(interface {
		Learn(ctx context.Context, u selector.Use)
	}); ok {
		defer func() { _ = recover() }() // as in all calls of a provider
		u.Tool = r.tool.ID
		learner.Learn(ctx, u)
	}
}

// enter counts a goroutine or call that Close waits for. It reports false if the Mux is
// closed.
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
			answers <- answer{i, p.health(ctx)}
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

func (p *member) health(ctx context.Context) (h adapter.Health) {
	defer func() {
		if reason := recover(); reason != nil {
			h = adapter.Health{Name: p.name, State: adapter.Down, Reason: fmt.Sprintf("it panicked: %v", reason)}
		}
	}()
	return p.Health(ctx)
}

// Close closes all providers at once, and returns their errors once they are closed and
// all calls have ended.
func (m *Mux) Close() error {
	m.mu.Lock()
	m.closed = true
	m.mu.Unlock()
	m.stop()
	errs := make([]error, len(m.providers))
	var closing sync.WaitGroup
	for i, p := range m.providers {
		closing.Go(func() {
			defer func() {
				if reason := recover(); reason != nil {
					errs[i] = fmt.Errorf("it panicked: %v", reason)
				}
				if errs[i] != nil {
					errs[i] = fmt.Errorf("close provider %q: %w", p.name, errs[i])
				}
			}()
			errs[i] = p.Close()
		})
	}
	closing.Wait()
	m.running.Wait()
	return errors.Join(errs...)
}

// note adds to a result's _meta the provider that answered, and the tools of the Mux that
// were called. It replaces Tool by the Mux's.
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
