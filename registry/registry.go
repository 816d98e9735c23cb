package registry

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"

	"go.uber.org/zap"
)

// A Registry is the catalog of all servers' tools. All methods may be called by
// many goroutines at once.
type Registry struct {
	log      *zap.Logger
	snapshot atomic.Pointer[Snapshot]
	index    *index

	mu      sync.Mutex    // guards changed, and lets one writer at a time replace snapshot
	changed chan struct{} // closed when snapshot is replaced, then itself replaced
}

// New returns an empty registry. It starts nothing until the first search or
// [Registry.Run]; from then on [Registry.Close] must be called, which Run does
// when it returns.
func New(log *zap.Logger) *Registry {
	r := &Registry{log: log.Named("registry"), changed: make(chan struct{}), index: newIndex()}
	r.snapshot.Store(&Snapshot{})
	return r
}

// Run keeps the search index up with the catalog until ctx ends, so that
// searches find it ready, and then closes the registry's index. It is not
// needed for searches to be right, only for them to be quick after a change.
func (r *Registry) Run(ctx context.Context) error {
	for {
		changed := r.Changed()
		if _, err := r.Collection(ctx); err != nil && ctx.Err() == nil {
			r.log.Error("index tools", zap.Error(err))
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return r.Close()
		}
	}
}

// Close frees the search index. Searches that come later fail with
// [ErrClosed]; the catalog itself stays readable.
func (r *Registry) Close() error { return r.index.close() }

// Replace says that the server has just these tools, in its own order. The
// registry keeps them: their Definition and InputSchema must not be modified
// any more. A listing equal to the one before changes nothing and signals
// nobody; tools that stayed as they were keep their identity (the same
// pointer) in the next snapshot.
//
// It is an error if a tool belongs to another server, has an ID that is not its
// key, or comes twice; then nothing changes.
func (r *Registry) Replace(server string, tools []NormalizedTool) (changed bool, err error) {
	seen := make(map[string]bool, len(tools))
	for i := range tools {
		t := &tools[i]
		switch {
		case t.Server != server:
			return false, fmt.Errorf("replace tools of %q: %q belongs to server %q", server, t.ID, t.Server)
		case t.ID != ToolID(server, t.Name):
			return false, fmt.Errorf("replace tools of %q: tool %q has the ID %q", server, t.Name, t.ID)
		case seen[t.ID]:
			return false, fmt.Errorf("replace tools of %q: %q is listed twice", server, t.Name)
		}
		seen[t.ID] = true
	}

	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.snapshot.Load()
	old := now.Server(server)
	listing := make([]*NormalizedTool, len(tools))
	changed = len(tools) != len(old)
	for i := range tools {
		t := tools[i]
		listing[i] = &t
		if was, ok := now.Tool(t.ID); ok && reflect.DeepEqual(was, &t) {
			listing[i] = was
		}
		changed = changed || listing[i] != old[i]
	}
	if changed {
		r.publish(now.with(server, listing))
	}
	return changed, nil
}

// Remove forgets the server and its tools.
func (r *Registry) Remove(server string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.snapshot.Load(); len(now.Server(server)) > 0 {
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

// Collection returns what a search looks at, once the index has caught up with
// the snapshot that is current now, or the error of ctx if that ends first.
func (r *Registry) Collection(ctx context.Context) (*Collection, error) {
	return r.index.catchUp(ctx, r.Snapshot())
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
