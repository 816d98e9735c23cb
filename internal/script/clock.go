package script

import (
	"context"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/signal"
)

// maxPause is how long a script may wait for persons.
const maxPause = 10 * time.Minute

// clockKey is the key of a context's clock.
type clockKey struct{}

// Pause says that a script's call waits for a person. While all calls of the script wait, its wall time stands
// still. The context is the [Host]'s. The caller calls resume once.
func Pause(ctx context.Context) (resume func()) {
	c, ok := ctx.Value(clockKey{}).(*clock)
	if !ok {
		return func() {}
	}
	c.add(0, 1)
	return func() { c.add(0, -1) }
}

// A clock measures a script's wall time and its waits for persons.
type clock struct {
	limit   time.Duration
	changed chan struct{} // has a value after a change

	mu            sync.Mutex // guards the fields below
	last          time.Time
	spent, waited time.Duration
	calls, pauses int
	waiting       func(bool) // is told whether all calls wait for persons; may be nil
}

// add adds open calls and open waits for persons.
func (c *clock) add(calls, pauses int) {
	c.mu.Lock()
	c.tick()
	before := c.paused()
	c.calls += calls
	c.pauses += pauses
	if now := c.paused(); now != before && c.waiting != nil {
		c.waiting(now)
	}
	c.mu.Unlock()
	signal.Leave(c.changed)
}

// left returns the time until the script ends if nothing changes, and why it ends if that is now.
func (c *clock) left() (time.Duration, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tick()
	switch {
	case c.waited >= maxPause:
		return 0, errorf("LimitError", "no person answered within %v", maxPause)
	case c.spent >= c.limit:
		return 0, errorf("LimitError", "the script took longer than %v%s", c.limit, boundBy("timeout"))
	case c.paused():
		return maxPause - c.waited, nil
	}
	return c.limit - c.spent, nil
}

// tick counts the time since the last tick. The caller holds the lock.
func (c *clock) tick() {
	now := time.Now()
	if c.paused() {
		c.waited += now.Sub(c.last)
	} else {
		c.spent += now.Sub(c.last)
	}
	c.last = now
}

// paused reports whether all calls wait for persons. The caller holds the lock.
func (c *clock) paused() bool { return c.pauses > 0 && c.pauses >= c.calls }
