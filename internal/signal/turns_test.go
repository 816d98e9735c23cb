package signal

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
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

// join has a member wait for a turn. want makes it one that someone waits for.
func (c *crowd) join(name string) (want func()) {
	wanted := make(chan struct{})
	go func() {
		free, err := c.Take(c.ctx, Turn{Limit: time.Minute, Wanted: wanted})
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
	expect.List(c.t, c.got, names, "turns went to")
	c.got = nil
}

// Turns are given in the order of arrival, but for those that someone waits for: they may take an extra turn.
func TestTurnsOfWantedOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, 2, 1)
		wants := make(map[string]func())
		for _, name := range []string{"a", "b", "c", "d", "e", "f"} {
			wants[name] = c.join(name)
		}
		c.expect("a", "b")
		wants["e"]()
		c.expect("e")
		wants["f"]()
		c.expect() // not more than the extra turns
		c.leave("a")
		c.expect("c")
		c.leave("e")
		c.leave("e") // twice does nothing
		c.expect("f")
		c.leave("b")
		c.expect("d")
		for _, name := range []string{"c", "d", "f"} {
			c.leave(name)
		}
		expect.Equal(t, len(c.regular)+len(c.extra), 0, "at the end %d and %d turns are held", len(c.regular), len(c.extra))
	})
}

// A turn that is held for too long is given to the next, once.
func TestTurnsAreHeldForALimitedTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrowd(t, 1, 0)
		for _, name := range []string{"a", "b", "c"} {
			c.join(name)
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
		c.join("a")
		c.join("b")
		why := errors.New("edited")
		c.end(why)
		synctest.Wait()
		if _, err := c.Take(c.ctx, Turn{}); !errors.Is(err, why) {
			t.Errorf("Take = %v, want the cause", err)
		}
		c.ctx = t.Context()
		c.leave("a")
		c.join("c")
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
			c.join("c")
		}
		if waits != 100 || len(c.regular) != 1 {
			t.Errorf("%d waited, and %d turns are held", waits, len(c.regular))
		}
	})
}
