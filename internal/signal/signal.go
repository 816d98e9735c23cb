// Package signal waits for channels that are used as signals: channels that are
// closed once something has happened, and channels of one place that hold a
// notice until it is read; for turns where few may act at a time; and for the
// end of a condition.
package signal

import (
	"context"
	"iter"
	"sync"
	"time"
)

// Within reports whether c is closed before d has passed.
func Within(c <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-c:
		return true
	case <-t.C:
		return false
	}
}

// IsClosed reports whether c is closed.
func IsClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Poll calls done, and again each time that so much time has passed, until it returns true. Poll returns false if ctx ends before
// that.
func Poll(ctx context.Context, every time.Duration, done func() bool) bool {
	again := time.NewTicker(every)
	defer again.Stop()
	for !done() {
		select {
		case <-again.C:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// Leave puts a notice into c unless it holds one.
func Leave(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Discard takes the notice out of c if it holds one.
func Discard(c chan struct{}) {
	select {
	case <-c:
	default:
	}
}

// A Change wakes goroutines that wait for the next change of a value. The zero value is ready.
type Change struct {
	mu   sync.Mutex // guards next
	next chan struct{}
}

// Next returns a channel that is closed at the next change.
func (c *Change) Next() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next == nil {
		c.next = make(chan struct{})
	}
	return c.next
}

// Notify wakes the goroutines that wait.
func (c *Change) Notify() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.next != nil {
		close(c.next)
		c.next = nil
	}
}

// While returns a context that ends, with the cause why, when holds reports false. It is asked each time after the interval, and
// gets the context. stop must be called: it ends the context too, and waits for holds.
func While(ctx context.Context, interval time.Duration, holds func(context.Context) bool, why error) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var asking sync.WaitGroup
	asking.Go(func() {
		if !Within(ctx.Done(), interval) && Poll(ctx, interval, func() bool { return !holds(ctx) }) {
			cancel(why)
		}
	})
	return ctx, func() {
		cancel(nil)
		asking.Wait()
	}
}

// Listeners are functions that hear of something. The zero value is empty.
type Listeners[F any] struct{ all sync.Map } // keys: *F

// Add adds a listener, which stop removes.
func (l *Listeners[F]) Add(one F) (stop func()) {
	l.all.Store(&one, nil)
	return func() { l.all.Delete(&one) }
}

// All returns the listeners in any order.
func (l *Listeners[F]) All() iter.Seq[F] {
	return func(yield func(F) bool) {
		l.all.Range(func(one, _ any) bool { return yield(*one.(*F)) })
	}
}
