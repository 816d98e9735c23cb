package signal

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// A crowd notes in which order its members get turns.
type crowd struct {
	*Turns
	t    *testing.T
	got  []string
	free map[string]func()
	ctx  context.Context
	end  context.CancelCauseFunc
}

func newCrowd(t *testing.T, regular, extra int) *crowd {
	c := &crowd{Turns: NewTurns(regular, extra), t: t, free: make(map[string]func())}
	c.ctx, c.end = context.WithCancelCause(t.Context())
	return c
}

// join has a member wait for a turn, which comes before others if it is soon. want makes
// it one that someone waits for.
func (c *crowd) join(name string, soon bool) (want func()) {
	wanted := make(chan struct{})
	go func() {
		free, err := c.Take(c.ctx, Turn{Limit: time.Minute, Soon: soon, Wanted: wanted})
		if err == nil {
			c.got, c.free[name] = append(c.got, name), free
		}
	}()
	synctest.Wait()
	return func() { close(wanted); synctest.Wait() }
}

func (c *crowd) leave(name string) {
	c.free[name]()
	synctest.Wait()
}

func (c *crowd) expect(names ...string) {
	c.t.Helper()
	if !slices.Equal(c.got, names) {
		c.t.Errorf("turns went to %v, want %v", c.got, names)
	}
	c.got = nil
}

// Turns are given in the order of arrival, but for those that someone waits for: they take an
// extra turn, and while they hold it no other turn is given.
func TestTurnsOfWantedOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, 2, 1)
		wants := make(map[string]func())
		for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
			wants[name] = c.join(name, false)
		}
		c.join("soon", true)
		c.expect("a", "b")
		wants["e"]()
		c.expect("e")
		wants["f"]()
		c.expect() // not more than the extra turns
		c.leave("a")
		c.expect("f")
		c.leave("b")
		c.expect() // two hold turns: those that are wanted
		c.leave("e")
		c.expect("soon")
		c.leave("soon")
		c.leave("soon") // twice does nothing
		c.expect("c")
		c.leave("f")
		c.expect("d")
		c.leave("c")
		c.leave("d")
		if c.held != 0 || len(c.line) != 0 {
			t.Errorf("at the end %d turns are held and %d wait", c.held, len(c.line))
		}
	})
}

// A turn that is held for too long is given to the next, once.
func TestTurnsAreHeldForALimitedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, 1, 0)
		for _, name := range []string{"a", "b", "c"} {
			c.join(name, false)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		c.expect("a", "b")
		c.leave("a")
		c.expect()
		c.leave("b")
		c.expect("c")
	})
}

// Those that no longer wait get no turn, and lose none.
func TestTurnsOfThoseThatLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, 1, 0)
		c.join("a", false)
		c.join("b", false)
		why := errors.New("edited")
		c.end(why)
		synctest.Wait()
		if _, err := c.Take(c.ctx, Turn{}); !errors.Is(err, why) {
			t.Errorf("Take = %v, want the cause", err)
		}
		c.ctx = t.Context()
		c.leave("a")
		c.join("c", false)
		c.expect("a", "c")
		waits := 0
		for range 100 { // a turn that comes when the wait ends is not lost
			ctx, cancel := context.WithCancel(t.Context())
			go func() {
				if free, err := c.Take(ctx, Turn{Limit: time.Minute, Waits: func() { waits++ }}); err == nil {
					free()
				}
			}()
			synctest.Wait()
			go cancel()
			go c.free["c"]()
			synctest.Wait()
			c.join("c", false)
		}
		if waits != 100 || c.held != 1 || len(c.line) != 0 {
			t.Errorf("%d waited, %d turns are held and %d wait", waits, c.held, len(c.line))
		}
	})
}
