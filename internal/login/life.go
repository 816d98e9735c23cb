package login

import (
	"context"
	"errors"
	"sync"
	"time"
)

// closeTime is how long a refresh under way may go on when the router ends.
const closeTime = 5 * time.Second

// errClosed ends logins that wait when the router ends.
var errClosed = errors.New("the router has ended; begin the login again")

// A life is how long the logins of a router go on.
type life struct {
	ctx   context.Context // ends with close
	stop  context.CancelFunc
	late  context.Context // of refreshes, which may go on for closeTime then
	abort context.CancelFunc

	mu     sync.Mutex // guards closed
	closed bool
	work   sync.WaitGroup
}

func newLife() *life {
	l := &life{}
	l.ctx, l.stop = context.WithCancel(context.Background())
	l.late, l.abort = context.WithCancel(context.Background())
	return l
}

// begin reports whether work may begin, which close waits for. It ends with l.work.Done.
func (l *life) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.work.Add(1)
	}
	return !l.closed
}

// start runs the work in a goroutine, and reports whether it may.
func (l *life) start(work func()) bool {
	if !l.begin() {
		return false
	}
	go func() {
		defer l.work.Done()
		work()
	}()
	return true
}

// close waits for all work. It aborts a refresh that takes long.
func (l *life) close() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.stop()
	late := time.AfterFunc(closeTime, l.abort)
	defer late.Stop()
	l.work.Wait()
	l.abort()
}
