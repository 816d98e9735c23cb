package adapter

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

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/session"
)

// A Mux is several providers as one: one catalog of all their tools, one ranking, one
// signal of changes. It is a provider itself, so a Mux may be in a Mux.
//
// A tool keeps its ID, "server:name", as long as one provider alone has a server of
// that name. Where several have, the tools of all of them are qualified by their
// provider, "provider/server:name"; likewise where a server's name begins with a
// provider's and a slash. IDs thus depend on what there is and not on the order in
// which it came. [Mux.Tool] knows every tool by its qualified ID too, so whoever notes
// IDs for later should note these.
//
// A call goes to the provider that has the tool. If that can't answer, a tool of
// another provider stands in, in the order of NewMux: one of the same name that takes
// the arguments, or, for a language model, one that bears all its capabilities. This is
// done only where the call did not reach the first one, or where the hints say that a
// second call does no harm. A tool that only reads is replaced only by another, and one
// that is declared destructive neither is replaced nor replaces any. The result's _meta
// then has degraded, and in its execution_path the tools that were asked. Its "provider"
// is the one that answered.
//
// A provider that is down or panics, or whose calls hang, does not harm the others: its
// last known tools stay, and calls of them fail.
type Mux struct {
	shelf
	providers []*muxed
	stop      context.CancelFunc
	running   sync.WaitGroup // followers, and what is under way

	routes atomic.Pointer[map[string]route] // by the tool's ID here

	// listing guards the lists of the providers, and has the registry change together
	// with these: with thousands of tools it is held for as long as a call may take.
	listing sync.Mutex

	mu     sync.Mutex // guards closed, and has running grow only while it is false
	closed bool
}

// A muxed provider is one of a Mux.
type muxed struct {
	ProviderAdapter
	name string
	list []*registry.NormalizedTool // last known; guarded by Mux.listing, and changed in turn only

	turn    sync.Mutex      // guards changed, and lets one at a time ask for the tools
	changed <-chan struct{} // the signal that they are others than those in list; nil if there is none
}

// A route says whose a tool is.
type route struct {
	to   *muxed
	tool *registry.NormalizedTool // as the provider has it
}

// NewMux returns the providers as one, with what they know at once. From then on they
// are the Mux's to close. It is an error if two have the same name, or if a name is
// empty or has a slash or a colon in it; then nothing is closed.
func NewMux(name string, providers ...ProviderAdapter) (*Mux, error) {
	m := &Mux{shelf: newShelf(name, nobody{}, zap.NewNop())}
	m.selector.Trust(m)
	m.catchUp = m.adoptAll
	for _, p := range providers {
		if p == nil {
			return nil, errors.Join(fmt.Errorf("mux %q: a provider is nil", name), m.registry.Close())
		}
		next := &muxed{ProviderAdapter: p, name: p.Name()}
		switch {
		case next.name == "" || strings.ContainsAny(next.name, "/:"):
			return nil, errors.Join(fmt.Errorf("mux %q: %q is no name for a provider", name, next.name), m.registry.Close())
		case slices.ContainsFunc(m.providers, func(o *muxed) bool { return o.name == next.name }):
			return nil, errors.Join(fmt.Errorf("mux %q: two providers are named %q", name, next.name), m.registry.Close())
		}
		m.providers = append(m.providers, next)
	}
	m.routes.Store(new(map[string]route))
	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	m.running.Go(func() { m.registry.Run(ctx) })
	for _, p := range m.providers {
		m.adopt(p)
		m.running.Go(func() { m.follow(ctx, p) })
	}
	return m, nil
}

// nobody has no sessions: the providers run the tools.
type nobody struct{}

func (nobody) Session(context.Context, string, session.Client) (session.Session, error) {
	return nil, errClosed
}
func (nobody) Policy(string) selector.Policy { return selector.Policy{} }

// look returns the provider's signal of changes, nil if it panics instead.
func (p *muxed) look() (changed <-chan struct{}) {
	defer func() { _ = recover() }()
	return p.Changed()
}

// tools returns the provider's tools, false if it panics instead.
func (p *muxed) tools() (tools []*registry.NormalizedTool, ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	return slices.DeleteFunc(slices.Clone(p.Tools()), func(t *registry.NormalizedTool) bool { return t == nil }), true
}

// follow adopts the provider's tools at each change until ctx ends.
func (m *Mux) follow(ctx context.Context, p *muxed) {
	for {
		select {
		case <-m.adopt(p): // never, if there is no signal
		case <-ctx.Done():
			return
		}
	}
}

// adoptAll adopts what has changed by now, so that whoever has changed a provider's
// tools finds them here.
func (m *Mux) adoptAll() {
	for _, p := range m.providers {
		m.adopt(p)
	}
}

// adopt makes the catalog have the provider's tools if they have changed, and returns
// the signal of their next change.
func (m *Mux) adopt(p *muxed) <-chan struct{} {
	if inner, ok := p.ProviderAdapter.(*Mux); ok {
		inner.adoptAll()
	}
	p.turn.Lock()
	defer p.turn.Unlock()
	if p.changed != nil && !isClosed(p.changed) {
		return p.changed
	}
	p.changed = p.look()
	if tools, ok := p.tools(); ok && !slices.Equal(tools, p.list) {
		m.list(p, tools)
	}
	return p.changed
}

// list makes the tools those of the provider.
func (m *Mux) list(p *muxed, tools []*registry.NormalizedTool) {
	m.listing.Lock()
	defer m.listing.Unlock()
	p.list = tools
	offers, routes := merged(m.providers)
	before := *m.routes.Load()
	both := make(map[string]route, len(before)+len(routes)) // so that a tool is never there without its route
	maps.Copy(both, before)
	maps.Copy(both, routes)
	m.routes.Store(&both)
	_, _ = m.registry.ReplaceAll(offers) // it can't fail: see merged
	m.routes.Store(&routes)
}

// merged returns what each server offers under its name in the Mux, and whose tools
// these are. It depends on nothing but the lists of the providers. Of a provider's tools
// with the same server and name, the first is kept.
func merged(providers []*muxed) (offers map[string]registry.Offer, routes map[string]route) {
	owners := make(map[string]map[*muxed]bool) // by server
	for _, p := range providers {
		for _, t := range p.list {
			if owners[t.Server] == nil {
				owners[t.Server] = make(map[*muxed]bool)
			}
			owners[t.Server][p] = true
		}
	}
	ambiguous := func(server string) bool {
		prefix, _, nested := strings.Cut(server, "/")
		return len(owners[server]) > 1 || nested && slices.ContainsFunc(providers, func(p *muxed) bool { return p.name == prefix })
	}
	offers, routes = make(map[string]registry.Offer), make(map[string]route)
	for _, p := range providers {
		for _, t := range p.list {
			ours := *t
			if ambiguous(t.Server) {
				ours.Server = qualified(p, t.Server)
			}
			ours.ID = registry.ToolID(ours.Server, ours.Name)
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

func qualified(p *muxed, server string) string { return p.name + "/" + server }

// Tool returns the tool of that ID, qualified or not.
func (m *Mux) Tool(id string) (*registry.NormalizedTool, bool) {
	m.catchUp()
	return m.known(id)
}

// known returns the tool of that ID, as of the last change that was adopted.
func (m *Mux) known(id string) (*registry.NormalizedTool, bool) {
	if t, ok := m.registry.Tool(id); ok {
		return t, true
	}
	name, plain, nested := strings.Cut(id, "/")
	if !nested {
		return nil, false
	}
	t, ok := m.registry.Tool(plain)
	if r, known := (*m.routes.Load())[plain]; ok && known && r.to.name == name {
		return t, true
	}
	return nil, false
}

// Match returns what providers have learned from use, such as a [Router], as evidence
// for a task of such words: it counts in the ranking as it does in theirs.
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

func (p *muxed) match(e selector.Experience, words []string, now time.Time) map[string]float64 {
	defer func() { _ = recover() }()
	return e.Match(words, now)
}

// Learn tells the provider of a tool that the client called it after it had found it
// for the task; see [Router.Learn]. Providers that do not learn are told nothing.
func (m *Mux) Learn(client, task, tool string, failed bool) {
	r, ok := (*m.routes.Load())[tool]
	if !ok {
		return
	}
	if learner, ok := r.to.ProviderAdapter.(interface {
		Learn(client, task, tool string, failed bool)
	}); ok {
		defer func() { _ = recover() }() // as of all that a provider does
		learner.Learn(client, task, r.tool.ID, failed)
	}
}

// enter notes that something is under way that Close waits for, unless the Mux is
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
func (m *Mux) Health(ctx context.Context) Health {
	parts := make([]Health, len(m.providers))
	type answer struct {
		i int
		h Health
	}
	answers := make(chan answer, len(parts))
	for i, p := range m.providers {
		parts[i] = Health{Name: p.name, State: Down, Reason: "it did not answer in time"}
		if !m.enter() {
			return Health{Name: m.name, State: Down, Reason: "it is closed"}
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
			return whole(m.name, len(m.Tools()), parts)
		}
	}
	return whole(m.name, len(m.Tools()), parts)
}

func (p *muxed) health(ctx context.Context) (h Health) {
	defer func() {
		if reason := recover(); reason != nil {
			h = Health{Name: p.name, State: Down, Reason: fmt.Sprintf("it panicked: %v", reason)}
		}
	}()
	return p.Health(ctx)
}

// Close closes all providers at once, and returns their errors when all of them and all
// calls have ended.
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

// note adds to a result's _meta who answered, and which tools of the Mux were asked
// before. It makes Tool one of the Mux's.
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
		r.Tool = m.ours(last.to, r.Tool)
	}
	return r
}

// ours returns a provider's tool as the Mux has it, nil if it has not.
func (m *Mux) ours(p *muxed, t *registry.NormalizedTool) *registry.NormalizedTool {
	if ours, ok := m.known(qualified(p, t.ID)); ok {
		return ours
	}
	return nil
}
