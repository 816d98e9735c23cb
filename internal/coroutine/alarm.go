package coroutine

import (
	"sync"
	"time"
)

// An alarm wakes the coroutines whose deadline has passed. Nearly all end long before: one timer
// for all costs much less than one for each.
type alarm struct {
	mu        sync.Mutex // guards what follows
	deadlines map[*Coroutine]time.Time
	timer     *time.Timer // runs ring
	at        time.Time   // when the timer fires; zero if it is not set
}

// add has the coroutine woken at the deadline.
func (a *alarm) add(c *Coroutine, deadline time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.deadlines == nil {
		a.deadlines = make(map[*Coroutine]time.Time)
	}
	a.deadlines[c] = deadline
	if a.at.IsZero() || deadline.Before(a.at) {
		a.set(deadline)
	}
}

// remove leaves the timer as it is.
func (a *alarm) remove(c *Coroutine) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.deadlines, c)
}

// set sets the timer. a.mu must be held.
func (a *alarm) set(at time.Time) {
	a.at = at
	if a.timer == nil {
		a.timer = time.AfterFunc(time.Until(at), a.ring)
	} else {
		a.timer.Reset(time.Until(at))
	}
}

// ring wakes the coroutines whose deadline has passed, and sets the timer for the next one.
func (a *alarm) ring() {
	var late []*Coroutine
	a.mu.Lock()
	now, next := time.Now(), time.Time{}
	for c, deadline := range a.deadlines {
		if !deadline.After(now) {
			late = append(late, c)
		} else if next.IsZero() || deadline.Before(next) {
			next = deadline
		}
	}
	if a.at = next; !next.IsZero() {
		a.set(next)
	}
	a.mu.Unlock()
	for _, c := range late {
		c.Wake()
	}
}

func (a *alarm) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.timer != nil {
		a.timer.Stop()
	}
}
