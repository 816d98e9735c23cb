package execute

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/session"
)

const (
	// maxQueued bounds the calls that wait for one server.
	maxQueued = 1000

	// maxWait bounds how long a call waits for calls before it to end. The call's own time limit begins when it is sent.
	maxWait = 10 * time.Minute

	// After breakAfter calls in a row that it did not answer, a server is not called for breakTime. Then one call is tried.
	breakAfter = 5
	breakTime  = 10 * time.Second
)

// errNotAdmitted is wrapped by the errors of calls that were not let through.
var errNotAdmitted error = notAdmitted{}

// A notAdmitted error wraps [session.ErrNotSent] without saying so twice.
type notAdmitted struct{}

func (notAdmitted) Error() string        { return "nothing was called" }
func (notAdmitted) Is(target error) bool { return target == session.ErrNotSent }

// A limiter bounds how many calls run on one server at once. It is also the server's circuit breaker.
type limiter struct {
	mu sync.Mutex // guards the fields below

	slots   chan struct{} // holds an item for each call that runs, up to the limit; nil without one
	active  int           // calls that run
	waiting int           // calls that wait for a slot

	unanswered int       // calls in a row
	open       time.Time // until when the circuit breaker lets no call through

	// Of a server on another node: calls of other routers, and when the node said so.
	others int
	heard  uint64
}

// limiters are the limiters of servers by name. The zero value is ready.
type limiters struct{ byServer sync.Map }

// of returns the server's limiter.
func (all *limiters) of(server string) *limiter {
	found, ok := all.byServer.Load(server)
	if !ok {
		found, _ = all.byServer.LoadOrStore(server, new(limiter))
	}
	return found.(*limiter)
}

// Load returns how many calls run on the server, and how many wait for one of these to end.
func (e *Executor) Load(server string) (calls, waiting int) {
	l := e.limiters.of(server)
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.active, l.waiting
}

// acquire waits until at most limit calls run, 0 being no limit, and returns a permit to run. It fails while the circuit breaker is open, if too many
// calls wait, and after maxWait.
func (l *limiter) acquire(ctx context.Context, server string, limit int) (*permit, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isOpen() {
		return nil, l.openError(server)
	}
	if cap(l.slots) != limit { // it was edited: calls of before keep their slots
		if l.slots = nil; limit > 0 {
			l.slots = make(chan struct{}, limit)
		}
	}
	p := &permit{limiter: l, slots: l.slots}
	if p.slots != nil {
		if err := l.wait(ctx, server, p.slots); err != nil {
			return nil, err
		}
		if l.isOpen() { // meanwhile
			<-p.slots
			return nil, l.openError(server)
		}
	}
	l.active++
	if l.unanswered >= breakAfter { // this call is the one that is tried
		l.open = time.Now().Add(breakTime)
	}
	return p, nil
}

// isOpen reports whether the circuit breaker is open. l.mu must be held.
func (l *limiter) isOpen() bool { return l.unanswered >= breakAfter && time.Now().Before(l.open) }

// openError says why no call is let through. l.mu must be held.
func (l *limiter) openError(server string) error {
	return fmt.Errorf("%w: server %q did not answer the last %d calls, so none is sent to it for the next %s; \"metarouter servers\" says how it is",
		errNotAdmitted, server, l.unanswered, time.Until(l.open).Round(100*time.Millisecond))
}

// wait takes a slot, once there is one. l.mu must be held; it is not held while the call waits.
func (l *limiter) wait(ctx context.Context, server string, slots chan struct{}) error {
	select {
	case slots <- struct{}{}:
		return nil
	default:
	}
	if l.waiting >= maxQueued {
		return fmt.Errorf("%w: server %q is busy (calls under way: %d, waiting: %d); try again later, or set a higher \"maxConcurrent\" in its entry",
			errNotAdmitted, server, l.active, l.waiting)
	}
	l.waiting++
	l.mu.Unlock()
	defer func() { l.mu.Lock(); l.waiting-- }()
	timer := time.NewTimer(maxWait)
	defer timer.Stop()
	select {
	case slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return fmt.Errorf("%w: server %q is busy: the call waited %s for others to end; try again later, or set a higher \"maxConcurrent\" in its entry",
			errNotAdmitted, server, maxWait)
	}
}

// recordOutcome counts for the circuit breaker how a call ended. A call during which the
// server asked its client something may have been late because of the client.
func (l *limiter) recordOutcome(ctx context.Context, err error, asked bool) {
	_, refused := errors.AsType[*session.Error](err)
	_, late := errors.AsType[*timeoutError](err)
	answered := err == nil || refused
	died := errors.Is(err, session.ErrClosed) && !errors.Is(err, session.ErrNotSent) && ctx.Err() == nil
	if !answered && !died && (!late || asked) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if answered {
		l.unanswered = 0
	} else if l.unanswered++; l.unanswered >= breakAfter {
		l.open = time.Now().Add(breakTime)
	}
}

// A permit is the right of a call to run on a server. For the server it is also the call's client: when the server asks the client something, which
// may take a person's time, the permit is released.
type permit struct {
	session.Client
	limiter  *limiter
	slots    chan struct{} // that has its slot; nil without one
	released atomic.Bool
	asked    atomic.Bool
}

// Ask implements [session.Client].
func (p *permit) Ask(ctx context.Context, server string, m session.Message) (json.RawMessage, error) {
	p.asked.Store(true)
	p.release()
	return p.Client.Ask(ctx, server, m)
}

// Unwrap returns the client, for [session.As].
func (p *permit) Unwrap() session.Client { return p.Client }

// release ends the permit. It may be called again, and then does nothing.
func (p *permit) release() {
	if !p.released.CompareAndSwap(false, true) {
		return
	}
	p.limiter.mu.Lock()
	defer p.limiter.mu.Unlock()
	p.limiter.active--
	if p.slots != nil {
		<-p.slots
	}
}
