package signal

import (
	"context"
	"sync"
)

// A Life is a time that ends once, for a cause, with the goroutines that belong to it.
type Life struct {
	ctx context.Context // ends with it
	end context.CancelCauseFunc

	mu   sync.Mutex     // nothing begins after Close
	Work sync.WaitGroup // that has begun; work that goes on may add to it after Close
}

// NewLife returns a life that begins now.
func NewLife() *Life {
	l := new(Life)
	l.ctx, l.end = context.WithCancelCause(context.Background())
	return l
}

// Begin begins work, which [Life.Wait] waits for until Work.Done is called. It returns false if
// the life has ended.
func (l *Life) Begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return false
	}
	l.Work.Add(1)
	return true
}

// Go runs f in a goroutine, which [Life.Wait] waits for. It returns false, and does not run f, if
// the life has ended.
func (l *Life) Go(f func()) bool {
	if !l.Begin() {
		return false
	}
	defer l.Work.Done()
	l.Work.Go(f)
	return true
}

// Close ends the life. Only the first cause counts; nil is [context.Canceled].
func (l *Life) Close(cause error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.end(cause)
}

// Wait returns when all work has ended. The life must have ended.
func (l *Life) Wait() { l.Work.Wait() }

// Context returns the context that ends with the life.
func (l *Life) Context() context.Context { return l.ctx }

// Done returns a channel that is closed at the end.
func (l *Life) Done() <-chan struct{} { return l.ctx.Done() }

// Cause returns why the life has ended, nil if it has not.
func (l *Life) Cause() error { return context.Cause(l.ctx) }
