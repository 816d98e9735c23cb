package stream

import "time"

// A clock knows when the other end was heard, and how far its clock is ahead of ours.
type clock struct {
	heard   time.Time // arrival of the newest frame
	timely  time.Time // arrival of the newest frame with a time that was not too old
	wrote   time.Time // when our newest frame was sent
	doubted time.Time // when NATS said that the other end is not there; zero if a frame came later

	affirmed int64 // the newest time of the other end's clock in a frame, in Unix nanoseconds

	measured         bool
	ahead, tolerance time.Duration // the difference is known with this error

	asked    time.Time // when our ping was sent of which the answer measures
	question uint64    // its sequence number; 0 without one
}

func newClock(now time.Time) clock { return clock{heard: now, timely: now, wrote: now} }

// elapsed is the time from then to now. It includes time in which the machine was suspended, which
// only the wall clock counts.
func elapsed(then, now time.Time) time.Duration {
	return max(now.Sub(then), now.Round(0).Sub(then.Round(0)))
}

// sending returns the time to put into a frame, 0 if it does not affirm.
func (c *clock) sending(k kind, seq uint64, now time.Time) int64 {
	c.wrote = now
	if k == ping && (c.question == 0 || elapsed(c.asked, now) > silence) {
		c.asked, c.question = now, seq
	}
	if elapsed(c.heard, now) >= affirmation {
		return 0
	}
	return now.UnixNano()
}

// receiving notes a frame with a valid MAC.
func (c *clock) receiving(sent int64, now time.Time) {
	c.heard, c.doubted = now, time.Time{}
	if sent == 0 {
		return
	}
	c.affirmed = sent
	if !c.lapsed(now) {
		c.timely = now
	}
}

// answered notes the answer to a ping: the other end's time when it answered.
func (c *clock) answered(seq uint64, at int64, now time.Time) {
	if c.question == 0 || seq != c.question {
		return
	}
	c.question = 0
	trip := elapsed(c.asked, now)
	// An end that was frozen in between gives a wide tolerance, which does not replace a good one.
	// Later measurements notice a clock that was set.
	if tolerance := trip / 2; !c.measured || tolerance <= max(c.tolerance, tick) {
		c.measured, c.tolerance = true, tolerance
		c.ahead = time.Duration(at-now.UnixNano()) + tolerance
	}
}

// lapsed reports whether the newest affirmation is too old, or of a clock that was set.
func (c *clock) lapsed(now time.Time) bool {
	age := time.Duration(now.UnixNano()-c.affirmed) + c.ahead
	return !c.measured || age+c.tolerance > affirmation || age < -affirmation-c.tolerance
}

// check returns why the stream has to end, nil if it goes on, and whether to send a ping.
func (c *clock) check(now time.Time) (err error, due bool) {
	switch {
	case elapsed(c.heard, now) > silence, elapsed(c.timely, now) > 2*silence:
		return ErrSilent, false
	case !c.doubted.IsZero() && elapsed(c.doubted, now) > affirmation:
		return ErrUnreachable, false
	}
	return nil, elapsed(c.wrote, now) >= tick || elapsed(c.asked, now) > measureEvery
}
