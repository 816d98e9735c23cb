package execute

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// A lazyDeadline is a context that ends with its parent, or at a time. It makes a timer only
// when Done is called: most calls find their server's session at once, and wait for nothing.
type lazyDeadline struct {
	context.Context // the parent
	at              time.Time

	once  sync.Once
	timer atomic.Pointer[timerContext]
}

type timerContext struct {
	context.Context
	cancel context.CancelFunc
}

// current returns the context with the timer, or the parent before Done was called.
func (d *lazyDeadline) current() context.Context {
	if t := d.timer.Load(); t != nil {
		return t.Context
	}
	return d.Context
}

// Done implements [context.Context].
func (d *lazyDeadline) Done() <-chan struct{} {
	d.once.Do(func() {
		ctx, cancel := context.WithDeadline(d.Context, d.at)
		d.timer.Store(&timerContext{ctx, cancel})
	})
	return d.current().Done()
}

// Err implements [context.Context].
func (d *lazyDeadline) Err() error {
	if err := d.current().Err(); err != nil || time.Now().Before(d.at) {
		return err
	}
	return context.DeadlineExceeded
}

// Deadline implements [context.Context].
func (d *lazyDeadline) Deadline() (time.Time, bool) {
	if at, ok := d.Context.Deadline(); ok && at.Before(d.at) {
		return at, true
	}
	return d.at, true
}

// Value implements [context.Context].
func (d *lazyDeadline) Value(key any) any { return d.current().Value(key) }

// stop frees the timer.
func (d *lazyDeadline) stop() {
	if t := d.timer.Load(); t != nil {
		t.cancel()
	}
}
