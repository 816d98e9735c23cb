package peer

import (
	"context"
	"sync"
)

// A lifetime is the time from the begin of a session to its end, with its goroutines.
type lifetime struct {
	life context.Context // ends with the session, whose cause is its cause
	end  context.CancelCauseFunc

	mu      sync.Mutex     // guards the order of Go and Close: after Close nothing is added to running
	running sync.WaitGroup // the goroutines of Go
}

// Go runs f as part of the session, which [lifetime.Wait] waits for. It returns false,
// and does not run f, if the session has ended.
func (l *lifetime) Go(f func()) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.life.Err() != nil {
		return false
	}
	l.running.Go(f)
	return true
}

// Close ends the session: calls under way and to come fail with the cause. Only the
// first cause counts.
func (l *lifetime) Close(cause error) {
	l.mu.Lock()
	l.end(cause)
	l.mu.Unlock()
}

// Wait returns when all functions that Go runs have returned. The session must have
// ended.
func (l *lifetime) Wait() { l.running.Wait() }

// Done implements [session.Session].
func (l *lifetime) Done() <-chan struct{} { return l.life.Done() }

// Cause returns why the session has ended, nil if it has not.
func (l *lifetime) Cause() error { return context.Cause(l.life) }
