package conversation

import (
	"fmt"
	"sync"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestQuota(t *testing.T) {
	q := NewQuota(2, 3)
	for i, step := range []struct {
		owner string
		want  bool
	}{{"a", true}, {"a", true}, {"a", false}, {"b", true}, {"b", false}} {
		expect.Equal(t, q.Take(step.owner), step.want, "step %d", i)
	}
	q.Release("a")
	if !q.Take("b") || q.Take("a") {
		t.Error("what is released can't be taken by another owner, or more than that can")
	}
	for range 2 {
		q.Release("b")
	}
	q.Release("a")
	if q.TakeN("a", 3) || !q.TakeN("a", 2) || q.TakeN("b", 2) || !q.TakeN("b", 0) {
		t.Error("several things are counted as another number")
	}
	q.ReleaseN("b", 0)
	q.ReleaseN("a", 2)
	if q.used != 0 || len(q.owned) != 0 {
		t.Errorf("%d are left, of %d owners", q.used, len(q.owned))
	}
}

// A store is one that uses a share as the stores of the router do.
type store struct {
	mu    sync.Mutex
	held  []int // sizes
	share *Share
}

func newStore(b *Budget) *store {
	s := new(store)
	s.share = b.Share(s.drop)
	return s
}

func (s *store) put(size int) {
	s.mu.Lock()
	s.held = append(s.held, size)
	s.share.Add(size)
	s.mu.Unlock()
	s.share.Fit()
}

func (s *store) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.held) > 0 {
		s.share.Add(-s.held[0])
		s.held = s.held[1:]
	}
}

// A store that puts in more and more evicts nothing of smaller stores.
func TestEvictionIsFair(t *testing.T) {
	b := NewBudget(100)
	greedy, modest := newStore(b), newStore(b)
	modest.put(30)
	for range 50 {
		greedy.put(10)
	}
	if len(modest.held) != 1 || len(greedy.held) != 7 {
		t.Errorf("holds %d and %d", modest.held, greedy.held)
	}
	for range 10 {
		modest.put(5)
	}
	expect.Equal(t, fmt.Sprint(modest.share.size, greedy.share.size), "50 50", "the shares")
	for _, s := range []*store{greedy, modest} {
		for range 50 {
			s.drop()
		}
	}
	if len(b.shares)+b.used != 0 {
		t.Errorf("%d shares of size %d stay", len(b.shares), b.used)
	}
}

func TestManyStoresAtOnce(t *testing.T) {
	b := NewBudget(100)
	var all sync.WaitGroup
	for range 8 {
		s := newStore(b)
		all.Go(func() {
			for i := range 500 {
				s.put(1 + i%7)
				if i%3 == 0 {
					s.drop()
				}
			}
		})
	}
	all.Wait()
	if b.used > b.limit {
		t.Errorf("%d are held", b.used)
	}
}

// Maps together have as many entries as the budget, and the larger one gives way.
func TestMap(t *testing.T) {
	b := NewBudget(10)
	one := func(entries map[int]string) {
		for key := range entries {
			delete(entries, key)
			return
		}
	}
	small, large := NewMap(b, one), NewMap(b, one)
	size := func(m *Map[int, string]) (n int) {
		m.Do(func(entries map[int]string) { n = len(entries) })
		return n
	}
	for i := range 20 {
		large.Do(func(entries map[int]string) { entries[i] = "" })
	}
	for i := range 3 {
		small.Do(func(entries map[int]string) { entries[i] = "" })
	}
	if size(small) != 3 || size(large) != 7 {
		t.Errorf("%d and %d entries", size(small), size(large))
	}
	func() {
		defer func() { recover() }()
		small.Do(func(map[int]string) { panic("f has a bug") })
	}()
	small.Forget(1)
	small.Forget(1)
	large.Clear()
	for i := range 20 {
		large.Do(func(entries map[int]string) { entries[i] = "" })
	}
	if size(small) != 2 || size(large) != 8 {
		t.Errorf("after one was forgotten and the others were cleared: %d and %d entries", size(small), size(large))
	}
}
