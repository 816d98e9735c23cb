package conversation

import "sync"

// A Quota bounds how many things there are, of one owner and of all owners.
type Quota struct {
	each, all int

	mu    sync.Mutex // guards the fields below
	used  int
	owned map[string]int // of each owner that has any
}

// NewQuota returns a quota of so many things of each owner, and of all owners together.
func NewQuota(each, all int) *Quota {
	return &Quota{each: each, all: all, owned: make(map[string]int)}
}

// Take counts one thing more of the owner. It reports false if there are too many.
func (q *Quota) Take(owner string) bool { return q.TakeN(owner, 1) }

// TakeN is Take for n things.
func (q *Quota) TakeN(owner string, n int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n > q.all-q.used || n > q.each-q.owned[owner] {
		return false
	}
	q.used += n
	q.owned[owner] += n
	return true
}

// Release counts one thing less of the owner, after a Take that reported true.
func (q *Quota) Release(owner string) { q.ReleaseN(owner, 1) }

// ReleaseN is Release for n things.
func (q *Quota) ReleaseN(owner string, n int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.used -= n
	if q.owned[owner] -= n; q.owned[owner] == 0 {
		delete(q.owned, owner)
	}
}

// A Budget bounds the size of all its shares together.
type Budget struct {
	limit int

	mu     sync.Mutex // guards the fields below, and size of the shares; locked last
	used   int
	shares map[*Share]bool // those that hold anything, so that others can be collected
}

// NewBudget returns a budget of the size.
func NewBudget(limit int) *Budget { return &Budget{limit: limit, shares: make(map[*Share]bool)} }

// A Share is the part of a budget that one store holds.
type Share struct {
	budget *Budget
	evict  func()
	size   int
}

// Share returns a new share, of size 0. evict drops the oldest item of its store, if there
// is anything. It is called without any lock, and must call [Share.Add].
func (b *Budget) Share(evict func()) *Share { return &Share{budget: b, evict: evict} }

// Add adds the size of an item that the store took in, or takes off the size of a dropped one. Call it
// under the lock of the store, so that the share is as large as the store. After the lock,
// [Share.Fit] must be called if the store has grown.
func (s *Share) Add(size int) {
	b := s.budget
	b.mu.Lock()
	defer b.mu.Unlock()
	s.size += size
	b.used += size
	if s.size > 0 {
		b.shares[s] = true
	} else {
		delete(b.shares, s)
	}
}

// Fit evicts from the largest share, until all together are within the budget. The caller must
// hold no lock.
func (s *Share) Fit() {
	for largest := s.budget.excess(); largest != nil; largest = s.budget.excess() {
		largest.evict()
	}
}

// excess returns the largest share, or nil if all together are within the budget.
func (b *Budget) excess() (largest *Share) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.used <= b.limit {
		return nil
	}
	for s := range b.shares {
		if largest == nil || s.size > largest.size {
			largest = s
		}
	}
	return largest
}

// A Map is a map with a share of a budget: the size of each entry is 1.
type Map[K comparable, V any] struct {
	share *Share

	mu      sync.Mutex // guards entries
	entries map[K]V
}

// NewMap returns an empty map. evict drops at least one entry, if there is any.
func NewMap[K comparable, V any](b *Budget, evict func(entries map[K]V)) *Map[K, V] {
	m := &Map[K, V]{entries: make(map[K]V)}
	m.share = b.Share(func() { m.Do(evict) })
	return m
}

// Do calls f with the entries, under the lock of the map.
func (m *Map[K, V]) Do(f func(entries map[K]V)) {
	if m.add(f) > 0 {
		m.share.Fit()
	}
}

// add is Do without a bound. It returns how many entries there are more.
func (m *Map[K, V]) add(f func(entries map[K]V)) (more int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before := len(m.entries)
	f(m.entries)
	if more = len(m.entries) - before; more != 0 {
		m.share.Add(more)
	}
	return more
}

// Forget drops the entry of the key, if there is one.
func (m *Map[K, V]) Forget(key K) { m.Do(func(entries map[K]V) { delete(entries, key) }) }

// Clear drops all entries.
func (m *Map[K, V]) Clear() { m.Do(func(entries map[K]V) { clear(entries) }) }
