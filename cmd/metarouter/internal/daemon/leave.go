package daemon

import (
	"context"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/signal"
)

// A leaver is the connection with a router that may hand its clients over to another one.
type leaver interface {
	Released() <-chan struct{} // closed when the client is to leave
	Leave()
}

// leavePoll is how often a Relay looks whether its client still awaits an answer of a router that it is to leave.
const leavePoll = 20 * time.Millisecond

// leave leaves the router, once that is to be left and the client awaits no answer of it. It ends with ctx, which ends with the
// router.
func (r *Relay) leave(ctx context.Context, router leaver) {
	select {
	case <-router.Released():
		signal.Poll(ctx, leavePoll, func() bool { return leaveIfIdle(r, router) })
	case <-ctx.Done():
	}
}

// leaveIfIdle leaves the router unless the client awaits an answer. Further messages of the client wait for the next router.
func leaveIfIdle(r *Relay, router leaver) bool {
	r.writing.Lock()
	defer r.writing.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	if any(r.router) != any(router) {
		return true // it has ended meanwhile
	}
	for _, q := range r.open {
		if q.line == nil || !q.stays {
			return false
		}
	}
	r.away = true
	router.Leave()
	return true
}
