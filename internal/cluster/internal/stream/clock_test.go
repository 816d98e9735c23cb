package stream

import (
	"errors"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// The clock of the other end is an hour ahead, and a frame takes 10 ms.
func TestClock(t *testing.T) {
	start := time.Now()
	at := func(d time.Duration) time.Time { return start.Add(d) }
	theirs := func(d time.Duration) int64 { return at(d + time.Hour).UnixNano() }
	const ms = time.Millisecond

	c := newClock(start)
	if !c.lapsed(start) {
		t.Error("a clock that knows nothing is not lapsed")
	}
	expect.Equal(t, c.sending(ping, 5, at(0)), start.UnixNano())
	c.sending(ping, 6, at(5*ms)) // does not measure
	c.receiving(theirs(10*ms), at(20*ms))
	c.answered(6, theirs(15*ms), at(25*ms))
	if c.measured {
		t.Error("the answer to another ping measures")
	}
	c.answered(5, theirs(10*ms), at(20*ms))
	if !c.measured || c.ahead != time.Hour || c.tolerance != 10*ms {
		t.Error(c.ahead, c.tolerance)
	}
	for d, want := range map[time.Duration]bool{20 * ms: false, 1490 * ms: false, 1510 * ms: true, time.Hour: true, -1490 * ms: false, -1520 * ms: true} {
		expect.Equal(t, c.lapsed(at(d)), want, "lapsed after %v", d)
	}

	// An end that heard nothing does not affirm, and a frame that does not affirm changes nothing.
	expect.Equal(t, c.sending(data, 7, at(1520*ms)), 0)
	c.receiving(0, at(1600*ms))
	if !c.lapsed(at(1600*ms)) || c.sending(data, 8, at(1600*ms)) == 0 {
		t.Error("a frame without a time affirms, or is not heard")
	}

	// An answer that took long does not replace a good measurement; one after a clock was set does.
	c.sending(ping, 9, at(2000*ms))
	c.answered(9, theirs(2000*ms), at(4000*ms))
	expect.Equal(t, c.ahead, time.Hour)
	c.sending(ping, 10, at(5000*ms))
	c.answered(10, at(5010*ms).UnixNano(), at(5020*ms))
	expect.Equal(t, c.ahead, 0)
}

func TestClockCheck(t *testing.T) {
	start := time.Now()
	at := func(d time.Duration) time.Time { return start.Add(d) }
	c := newClock(start)
	c.asked = start
	if err, due := c.check(at(tick - 1)); err != nil || due {
		t.Error(err, due)
	}
	if err, due := c.check(at(tick)); err != nil || !due {
		t.Error(err, due)
	}
	if err, _ := c.check(at(silence)); err != nil {
		t.Error(err)
	}
	if err, _ := c.check(at(silence + 1)); !errors.Is(err, ErrSilent) {
		t.Error(err)
	}
	if err, _ := c.check(start.Round(0).Add(time.Minute)); !errors.Is(err, ErrSilent) {
		t.Error("a suspended machine:", err)
	}
	c.doubted = at(0)
	if err, _ := c.check(at(affirmation + 1)); !errors.Is(err, ErrUnreachable) {
		t.Error(err)
	}
	c.receiving(0, at(affirmation))
	if err, _ := c.check(at(affirmation + 1)); err != nil {
		t.Error(err)
	}
	// Frames come, but none is timely.
	for d := time.Duration(0); d < 2*silence; d += time.Second {
		c.receiving(0, at(d))
		if err, _ := c.check(at(d)); err != nil {
			t.Error(d, err)
		}
	}
	c.receiving(0, at(2*silence))
	if err, _ := c.check(at(2*silence + 1)); !errors.Is(err, ErrSilent) {
		t.Error(err)
	}
}
