package registry

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mcp-metarouter/metarouter/internal/signal"
)

// A Registry is the catalog of all servers. Its methods may be called by many goroutines
// at once.
type Registry struct {
	snapshot atomic.Pointer[Snapshot]

	mu        sync.Mutex          // guards the fields below, and lets one writer at a time replace snapshot
	changed   signal.Change       // of snapshot
	claimants map[string]claimant // by server; nil before Configure
}

// New returns an empty registry.
func New() *Registry {
	r := new(Registry)
	r.snapshot.Store(&Snapshot{claims: make(Claims)})
	return r
}

// Replace sets all that the server offers, in the server's order. The raw JSON in it must
// not be modified any more. An equal offer changes nothing and signals no change; an item
// that did not change is the same pointer in the next snapshot.
//
// It is an error if an item belongs to another server, has an ID that is not its key, or
// comes twice; then nothing changes.
func (r *Registry) Replace(server string, o Offer) (changed bool, err error) {
	return r.ReplaceSome(map[string]Offer{server: o})
}

// ReplaceSome is Replace for several servers, in one change: no reader sees a part of it.
func (r *Registry) ReplaceSome(offers map[string]Offer) (changed bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now, changes := r.snapshot.Load(), make(map[string]*Listing)
	for server, o := range offers {
		l, err := newListing(server, o, now.Offer(server))
		if err != nil {
			return false, err
		}
		switch {
		case l.equal(now.Offer(server)):
		case l.equal(Listing{}):
			changes[server] = nil
		default:
			changes[server] = &l
		}
	}
	next := with(now, changes)
	for server := range offers {
		next = r.listed(next, server)
	}
	if next == now {
		return false, nil
	}
	next.Version = now.Version + 1
	r.publish(next)
	return true, nil
}

// newListing returns the offer of the server as a snapshot shares it: with the pointers of the listing
// before it to items that did not change.
func newListing(server string, o Offer, was Listing) (Listing, error) {
	next := Listing{Capabilities: o.Capabilities, Extensions: o.Extensions, Version: o.Version, Look: o.Look, Instructions: o.Instructions, Suspect: o.Suspect, Dropped: o.Dropped, LastSeen: o.LastSeen, Confirmed: o.Confirmed}
	var errs [5]error
	next.Tools, errs[0] = share(server, o.Tools, was.Tools)
	next.Prompts, errs[1] = share(server, o.Prompts, was.Prompts)
	next.Resources, errs[2] = share(server, o.Resources, was.Resources)
	next.Templates, errs[3] = share(server, o.Templates, was.Templates)
	next.Skills, errs[4] = share(server, o.Skills, was.Skills)
	if err := errors.Join(errs[:]...); err != nil {
		return Listing{}, fmt.Errorf("replace the offer of %q: %w", server, err)
	}
	return next, nil
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
	return a.items.equal(b.items) &&
		bytes.Equal(a.Capabilities, b.Capabilities) && bytes.Equal(a.Extensions, b.Extensions) && a.Version == b.Version && bytes.Equal(a.Look, b.Look) && a.Instructions == b.Instructions && slices.Equal(a.Suspect, b.Suspect) &&
		slices.Equal(a.Dropped, b.Dropped) && reflect.DeepEqual(a.Confirmed, b.Confirmed) &&
		maps.EqualFunc(a.LastSeen, b.LastSeen, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) })
}

// Remove removes the server and all its items.
func (r *Registry) Remove(server string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := r.snapshot.Load(); now.servers[server] != nil {
		r.publish(with(now, map[string]*Listing{server: nil}))
	}
}

// publish makes next the current snapshot and signals the change.
// r.mu must be held.
func (r *Registry) publish(next *Snapshot) {
	r.snapshot.Store(next)
	r.changed.Notify()
}

// Snapshot returns the catalog as it is now.
func (r *Registry) Snapshot() *Snapshot { return r.snapshot.Load() }

// Changed returns a channel that is closed at the next change. Take it before
// the snapshot, and no change is missed:
//
//	for {
//		changed := r.Changed()
//		use(r.Snapshot())
//		<-changed
//	}
func (r *Registry) Changed() <-chan struct{} { return r.changed.Next() }
