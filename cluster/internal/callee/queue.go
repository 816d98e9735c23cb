package callee

import "sync"

// A queue has items handled in order, by one goroutine at a time, which exists only while there
// are any. The zero value is empty.
type queue[T any] struct {
	mu    sync.Mutex // guards the fields below
	items []queued[T]
	bytes int
	busy  bool // a goroutine handles items
}

type queued[T any] struct {
	item T
	size int
}

// bounds are the bounds of a queue.
type bounds struct{ items, bytes int }

// put adds an item of so many bytes, unless the queue would have more than its bounds. If start is
// true, the caller has drain called.
func (q *queue[T]) put(item T, size int, most bounds) (added, start bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) >= most.items || len(q.items) > 0 && q.bytes+size > most.bytes {
		return false, false
	}
	return true, q.add(item, size)
}

// must adds an item, whatever the bounds are. If start is true, the caller has drain called.
func (q *queue[T]) must(item T, size int) (start bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.add(item, size)
}

// add adds an item. q.mu must be held.
func (q *queue[T]) add(item T, size int) (start bool) {
	q.items = append(q.items, queued[T]{item, size})
	q.bytes += size
	start = !q.busy
	q.busy = true
	return start
}

func (q *queue[T]) drain(handle func(T)) {
	for {
		q.mu.Lock()
		if len(q.items) == 0 {
			q.items, q.busy = nil, false
			q.mu.Unlock()
			return
		}
		next := q.items[0]
		q.items[0] = queued[T]{}
		q.items = q.items[1:]
		q.bytes -= next.size
		q.mu.Unlock()
		handle(next.item)
	}
}
