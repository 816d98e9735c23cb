// Package budget bounds the things that clients hold at once, in number and in bytes, each client and all together.
//
// The servers of all profiles of a router share one [Budget] of its clients, and one of other nodes.
package budget

import (
	"errors"
	"sync"
)

// A Kind is a kind of things that clients hold.
type Kind int

const (
	Suspended Kind = iota // requests that wait for their clients to come back, by principal; bytes of their parameters
	Scripts               // that run or are suspended, by principal
	Listeners             // requests for changes
	Watches               // resources to which clients subscribe, by client; bytes of their URIs, which a modern server gets in one request
	Requests              // of other nodes that run, by the key of the node; bytes of their parameters
	kinds
)

// A Bound is how many things there may be, and their bytes; 0 is any number.
type Bound struct{ Each, All, EachBytes, AllBytes int }

// A Budget counts the things that clients hold.
type Budget struct {
	bounds [kinds]Bound

	mu   sync.Mutex       // guards held
	held map[holder]count // without those that hold nothing
}

// A holder is an owner of things of a kind, or everyone.
type holder struct {
	kind  Kind
	owner any
}

type everyone struct{}

type count struct{ things, bytes int }

func newBudget(bounds [kinds]Bound) *Budget {
	return &Budget{bounds: bounds, held: make(map[holder]count)}
}

// Clients returns the budget of the clients of a router.
func Clients() *Budget {
	return newBudget([kinds]Bound{
		Suspended: {Each: 100, All: 1000, EachBytes: 64 << 20, AllBytes: 256 << 20},
		Scripts:   {Each: 16}, // half of those that the engine runs
		Listeners: {All: 10_000},
		Watches:   {Each: 1000, All: 20_000, EachBytes: 256 << 10, AllBytes: 2 << 20},
	})
}

// Nodes returns the budget of other nodes, each on behalf of all its clients.
func Nodes() *Budget {
	return newBudget([kinds]Bound{
		Suspended: {Each: 100, All: 1000, EachBytes: 128 << 20, AllBytes: 256 << 20},
		Listeners: {All: 10_000},
		Watches:   {Each: 10_000, All: 20_000, EachBytes: 1 << 20, AllBytes: 2 << 20},
		Requests:  {Each: 1024, All: 4096, EachBytes: 128 << 20, AllBytes: 256 << 20},
	})
}

// Bound returns the bound of a kind.
func (b *Budget) Bound(k Kind) Bound { return b.bounds[k] }

// Why one thing more is too many.
var (
	ErrEach = errors.New("the owner has too many")
	ErrAll  = errors.New("all owners together have too many")
)

// Take counts one thing more of the owner, unless there are too many, or too many bytes.
func (b *Budget) Take(k Kind, owner any, bytes int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	exceeds := func(owner any, most, mostBytes int) bool {
		now := b.held[holder{k, owner}]
		return most > 0 && now.things >= most || mostBytes > 0 && now.bytes+bytes > mostBytes
	}
	switch bound := b.bounds[k]; {
	case exceeds(owner, bound.Each, bound.EachBytes):
		return ErrEach
	case exceeds(everyone{}, bound.All, bound.AllBytes):
		return ErrAll
	}
	b.add(k, owner, 1, bytes)
	return nil
}

// Release counts one thing less of the owner, after a Take without an error.
func (b *Budget) Release(k Kind, owner any, bytes int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.add(k, owner, -1, -bytes)
}

// add adds to the things of the owner, and of everyone. b.mu must be held.
func (b *Budget) add(k Kind, owner any, things, bytes int) {
	for _, h := range []holder{{k, owner}, {k, everyone{}}} {
		now := count{b.held[h].things + things, b.held[h].bytes + bytes}
		if b.held[h] = now; now == (count{}) {
			delete(b.held, h)
		}
	}
}
