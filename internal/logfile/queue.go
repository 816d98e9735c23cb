package logfile

import (
	"context"
	"sync"
	"sync/atomic"
)

// queued bounds the items that wait to be written. Further ones are lost, so that no caller waits for a disk.
const queued = 1024

// A Queue hands items to one goroutine, which writes them. Its methods may be called by many goroutines at once.
type Queue[T any] struct {
	Lost atomic.Int64 // items that are not written

	mu     sync.Mutex // no item is put while the queue is closed
	items  chan T
	closed context.Context
	close  context.CancelFunc
	ended  chan struct{}
}

// NewQueue returns a queue that hands items to write, at most so many at once, and none at all at its end. It must be closed.
func NewQueue[T any](atOnce int, write func(items []T)) *Queue[T] {
	q := &Queue[T]{items: make(chan T, queued), ended: make(chan struct{})}
	q.closed, q.close = context.WithCancel(context.Background())
	go func() {
		defer close(q.ended)
		for q.closed.Err() == nil || len(q.items) > 0 {
			select {
			case first := <-q.items:
				all := []T{first}
				for len(q.items) > 0 && len(all) < atOnce {
					all = append(all, <-q.items)
				}
				write(all)
			case <-q.closed.Done():
			}
		}
		write(nil)
	}()
	return q
}

// Put has an item written soon. It is lost if too many wait, or after Close.
func (q *Queue[T]) Put(item T) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed.Err() == nil {
		select {
		case q.items <- item:
			return
		default:
		}
	}
	q.Lost.Add(1)
}

// Closed is closed when no more items come.
func (q *Queue[T]) Closed() <-chan struct{} { return q.closed.Done() }

// Close waits until all items are written, or ctx ends.
func (q *Queue[T]) Close(ctx context.Context) error {
	q.mu.Lock()
	q.close()
	q.mu.Unlock()
	select {
	case <-q.ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
