package callee

import (
	"sync/atomic"
	"time"
)

// pulseTime is the time between two beats of a pulse.
const pulseTime = 500 * time.Millisecond

// A pulse knows when the process was frozen: no goroutine beat it then for longer than startTime, by
// the clock on the wall. The zero value was never frozen. Times are in nanoseconds since 1970.
type pulse struct {
	beaten atomic.Int64 // when it was beaten last; 0 for never
	frozen atomic.Int64 // a time within the latest freeze that a beat has found; 0 before
}

// beat says that the process runs. One goroutine at a time calls it.
func (p *pulse) beat(now time.Time) {
	at := now.UnixNano()
	if within := p.within(p.beaten.Load(), at); within != 0 {
		p.frozen.Store(within)
	}
	p.beaten.Store(at) // last, so that a reader of this beat also sees frozen
}

// within returns a time within the freeze between the last beat and now; 0 without a freeze.
func (p *pulse) within(last, now int64) int64 {
	if last == 0 || now-last <= int64(startTime) {
		return 0
	}
	return last + int64(startTime)
}

// stopped reports whether the process was frozen after since. It also finds a freeze that no beat
// has found yet: the caller may be the first goroutine that runs again.
func (p *pulse) stopped(since time.Time, wall func() time.Time) bool {
	last := p.beaten.Load() // before the clock, so that a freeze between the two is found
	frozen := p.within(last, wall().UnixNano())
	return since.UnixNano() < max(frozen, p.frozen.Load())
}
