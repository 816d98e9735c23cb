package peer

import (
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/signal"
)

// Calls are the requests to the server that have no answer yet. They also say
// whether new ones may begin.
type Calls struct {
	Served atomic.Int64 // requests of users that were answered

	mu            sync.Mutex // guards the fields below
	pending       map[int64]*pendingRequest
	subscriptions int           // of the pending calls
	idle          signal.Change // to no pending call
	since         time.Time     // since when no call is pending, if so
	refused       bool          // no call may begin: those under way may end, then the session does
}

// Longest returns how long the oldest pending call of a tool has been under way; 0 without one.
func (c *Calls) Longest() (longest time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.pending {
		if one.method == "tools/call" {
			longest = max(longest, time.Since(one.began))
		}
	}
	return longest
}

// A pendingRequest is a request that was begun and has not ended.
type pendingRequest struct {
	id       int64
	began    time.Time
	method   string
	from     session.Client
	token    json.RawMessage // the client's progress token; may be nil
	answer   chan Reply      // receives at most one
	sent     Outgoing
	doubted  atomic.Bool  // a line seemed to be its answer, and was no message
	roots    bool         // the server has asked for the client's roots; guarded by Calls.mu
	declined atomic.Int32 // questions of the server during the call
}

// standing reports whether the call is a subscription: no caller waits for its answer.
func (c *pendingRequest) standing() bool { return c.method == listen }

// ErrRefused is the error of calls that come after [Calls.Refuse].
var ErrRefused = errors.New("the session is about to end")

// add registers a call, unless calls are refused.
func (c *Calls) add(one *pendingRequest) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refused && !one.standing() {
		return ErrRefused
	}
	c.pending[one.id] = one
	if one.standing() {
		c.subscriptions++
	}
	return nil
}

// busy counts the calls that a caller waits for. c.mu must be held.
func (c *Calls) busy() int { return len(c.pending) - c.subscriptions }

// remove ends a call.
func (c *Calls) remove(one *pendingRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending[one.id] == nil {
		return
	}
	delete(c.pending, one.id)
	if one.standing() {
		c.subscriptions--
		return
	}
	if c.busy() > 0 {
		return
	}
	c.since = time.Now()
	c.idle.Notify()
}

// get returns the call with the id, nil if it has ended.
func (c *Calls) get(id int64) *pendingRequest {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pending[id]
}

// asker returns the call for which the server says or asks something, and its
// client: the call origin, with which the message came; else the latest call. The call
// is nil if no call of a client is under way, and the client is nil if one client has
// not made all calls.
func (c *Calls) asker(origin int64) (latest *pendingRequest, from session.Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if one := c.pending[origin]; one != nil && one.from != nil {
		return one, one.from
	}
	several := false
	for _, one := range c.pending {
		if one.from == nil {
			continue
		}
		several = several || latest != nil && (one.from.Home() == nil || one.from.Home() != latest.from.Home())
		if latest == nil || one.id > latest.id {
			latest = one
		}
	}
	if latest == nil || several {
		return latest, nil
	}
	return latest, latest.from
}

// takeRoots reports whether the server may be given the roots once more because of a
// call: the given one, or another one of a client.
func (c *Calls) takeRoots(given *pendingRequest) bool {
	if given == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if given.roots {
		for _, one := range c.pending {
			if one.from != nil && !one.roots {
				given = one
				break
			}
		}
	}
	free := !given.roots
	given.roots = true
	return free
}

// Idle returns a channel that is closed when no call is under way, or was when Idle
// was called.
func (c *Calls) Idle() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	idle := c.idle.Next()
	if c.busy() == 0 {
		c.idle.Notify()
	}
	return idle
}

// IdleFor returns for how long no call has been under way, 0 if one is.
func (c *Calls) IdleFor() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.busy() > 0 {
		return 0
	}
	return time.Since(c.since)
}

// Refuse lets no new call begin.
func (c *Calls) Refuse() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused = true
}

// RefuseUnlessBusy is Refuse, unless a call is under way, and reports
// whether calls are refused.
func (c *Calls) RefuseUnlessBusy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused = c.refused || c.busy() == 0
	return c.refused
}

// Refused reports whether no new call may begin.
func (c *Calls) Refused() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused
}
