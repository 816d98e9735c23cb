package registry

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/vectors"
)

// A Registry is the catalog of all that servers offer. All methods may be called by
// many goroutines at once.
type Registry struct {
	log      *zap.Logger
	snapshot atomic.Pointer[Snapshot]
	tools    *index
	others   *index // of prompts, resources and templates

	mu      sync.Mutex    // guards changed, and lets one writer at a time replace snapshot
	changed chan struct{} // closed when snapshot is replaced, then itself replaced
}

// New returns an empty registry. It starts nothing until the first search or
// [Registry.Run]; from then on [Registry.Close] must be called, which Run does
// when it returns.
func New(log *zap.Logger) *Registry { return NewWith(log, vectors.Embedded()) }

// NewWith is New with a model of words of its own, as programs need that train
// one.
func NewWith(log *zap.Logger, model *vectors.Model) *Registry {
	r := &Registry{
		log: log.Named("registry"), changed: make(chan struct{}),
		tools: newIndex(toolItems, model), others: newIndex(otherItems, model),
	}
	r.snapshot.Store(&Snapshot{})
	return r
}

// Run keeps the search indexes up with the catalog until ctx ends, so that
// searches find them ready, and then closes the registry's indexes. It is not
// needed for searches to be right, only for them to be quick after a change.
func (r *Registry) Run(ctx context.Context) error {
	for {
		changed := r.Changed()
		for _, index := range []*index{r.tools, r.others} {
			if _, err := index.catchUp(ctx, r.Snapshot()); err != nil && ctx.Err() == nil {
				r.log.Error("index the catalog", zap.Error(err))
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return r.Close()
		}
	}
}

// Close frees the search indexes. Searches that come later fail with
// [ErrClosed]; the catalog itself stays readable.
func (r *Registry) Close() error { return errors.Join(r.tools.close(), r.others.close()) }

// Replace says that the server offers just this, in its own order. The registry
// keeps it: the raw JSON in it must not be modified any more. An offer equal to
// the one before changes nothing and signals nobody; what stayed as it was keeps
// its identity (the same pointer) in the next snapshot.
//
// It is an error if something belongs to another server, has an ID that is not
// its key, or comes twice; then nothing changes.
func (r *Registry) Replace(server string, o Offer) (changed bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.snapshot.Load()
	next, err := now.replaced(server, o)
	if err != nil || next == now {
		return false, err
	}
	r.publish(next)
	return true, nil
}

// ReplaceAll says that the servers offer just this, and that there are no others. It is
// Replace of all of them in one change: nobody sees a part of it.
func (r *Registry) ReplaceAll(offers map[string]Offer) (changed bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.snapshot.Load()
	next := now
	for server := range now.servers {
		if _, stays := offers[server]; !stays {
			next = next.with(server, nil)
		}
	}
	for server, o := range offers {
		if next, err = next.replaced(server, o); err != nil {
			return false, err
		}
	}
	if next == now {
		return false, nil
	}
	next.Version = now.Version + 1
	r.publish(next)
	return true, nil
}

// replaced returns the snapshot in which the server offers just this: s itself if it
// does already.
func (s *Snapshot) replaced(server string, o Offer) (*Snapshot, error) {
	was := s.Offer(server)
	next := Listing{Capabilities: o.Capabilities, Extensions: o.Extensions, Version: o.Version, Dropped: o.Dropped}
	var errs [4]error
	next.Tools, errs[0] = share(server, o.Tools, was.Tools)
	next.Prompts, errs[1] = share(server, o.Prompts, was.Prompts)
	next.Resources, errs[2] = share(server, o.Resources, was.Resources)
	next.Templates, errs[3] = share(server, o.Templates, was.Templates)
	if err := errors.Join(errs[:]...); err != nil {
		return nil, fmt.Errorf("replace the offer of %q: %w", server, err)
	}
	switch {
	case next.equal(was):
		return s, nil
	case next.equal(Listing{}):
		return s.with(server, nil), nil
	}
	return s.with(server, &next), nil
}

// share returns pointers to the values: those that there were where these are
// equal, else to copies.
func share[T any, P interface {
	*T
	keyed
}](server string, values []T, was []P) ([]P, error) {
	known := make(map[string]P, len(was))
	for _, p := range was {
		id, _, _ := p.key()
		known[id] = p
	}
	seen := make(map[string]bool, len(values))
	shared := make([]P, len(values))
	for i, v := range values {
		p := P(&v)
		id, of, name := p.key()
		switch {
		case of != server:
			return nil, fmt.Errorf("%q belongs to server %q", id, of)
		case id != ID(server, name):
			return nil, fmt.Errorf("%q has the ID %q", name, id)
		case seen[id]:
			return nil, fmt.Errorf("%q is listed twice", name)
		}
		seen[id] = true
		shared[i] = p
		if old, ok := known[id]; ok && reflect.DeepEqual(old, p) {
			shared[i] = old
		}
	}
	return shared, nil
}

// equal reports whether a and b are the same things in the same order.
func (a Listing) equal(b Listing) bool {
	return slices.Equal(a.Tools, b.Tools) && slices.Equal(a.Prompts, b.Prompts) &&
		slices.Equal(a.Resources, b.Resources) && slices.Equal(a.Templates, b.Templates) &&
		bytes.Equal(a.Capabilities, b.Capabilities) && bytes.Equal(a.Extensions, b.Extensions) && a.Version == b.Version &&
		slices.Equal(a.Dropped, b.Dropped)
}

// Remove forgets the server and all that it offers.
func (r *Registry) Remove(server string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.snapshot.Load(); now.servers[server] != nil {
		r.publish(now.with(server, nil))
	}
}

// publish makes next the current snapshot and wakes who waits for a change.
// r.mu must be held.
func (r *Registry) publish(next *Snapshot) {
	r.snapshot.Store(next)
	close(r.changed)
	r.changed = make(chan struct{})
}

// Snapshot returns the catalog as it is now.
func (r *Registry) Snapshot() *Snapshot { return r.snapshot.Load() }

// Tool returns the tool with the given ID in the current snapshot.
func (r *Registry) Tool(id string) (*NormalizedTool, bool) { return r.Snapshot().Tool(id) }

// Tools returns all tools of the current snapshot, sorted by ID.
func (r *Registry) Tools() []*NormalizedTool { return r.Snapshot().Tools() }

// FindByCapability returns the tools of the current snapshot that bear all the
// given tags, sorted by ID.
func (r *Registry) FindByCapability(tags ...string) []*NormalizedTool {
	return r.Snapshot().FindByCapability(tags...)
}

// Changed returns a channel that is closed at the next change. Take it before
// the snapshot, and no change is missed:
//
//	for {
//		changed := r.Changed()
//		use(r.Snapshot())
//		<-changed
//	}
func (r *Registry) Changed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed
}

// Collection returns what a search for tools looks at, once the index has caught
// up with the snapshot that is current now, or the error of ctx if that ends
// first.
func (r *Registry) Collection(ctx context.Context) (*Collection, error) {
	return r.tools.catchUp(ctx, r.Snapshot())
}

// Others returns what a search for prompts, resources and templates looks at, as
// [Registry.Collection] does for tools. What is in it bears its kind as its one
// capability, so that a search can ask for kinds; a template bears that of a
// resource, too.
func (r *Registry) Others(ctx context.Context) (*Collection, error) {
	return r.others.catchUp(ctx, r.Snapshot())
}

// Search returns the tools that best match the query, best first. It is short
// for [Registry.Collection] and [Collection.Search].
func (r *Registry) Search(ctx context.Context, q Query) ([]Hit, error) {
	c, err := r.Collection(ctx)
	if err != nil {
		return nil, err
	}
	return c.Search(ctx, q)
}
