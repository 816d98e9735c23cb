package service

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// After a peak, memory is given back once, within a minute. A heap that swings as garbage is
// collected is no peak, and neither is work that goes on.
func TestReturnMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const mb = 1 << 20
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex // guards the next four
		var now usage
		var limit uint64
		var freed int
		var left uint64 // what is held after memory was given back
		become := func(held, live, more, after uint64) {
			mu.Lock()
			defer mu.Unlock()
			now = usage{held * mb, live * mb, now.allocated + more*mb}
			freed, left = 0, after*mb
		}
		times := func() int {
			mu.Lock()
			defer mu.Unlock()
			return freed
		}
		var running sync.WaitGroup
		running.Go(func() {
			returnMemory(ctx, func() usage {
				mu.Lock()
				defer mu.Unlock()
				return now
			}, func() {
				mu.Lock()
				defer mu.Unlock()
				freed++
				now.held = left
			}, func(bytes uint64) {
				mu.Lock()
				defer mu.Unlock()
				limit = bytes
			})
		})
		for _, step := range []struct {
			what string
			held, live, allocated,
			left uint64
			freed int
		}{
			{"at the start", 40, 10, 0, 30, 0},
			{"after a peak", 200, 10, 300, 30, 1},
			{"with little to do after that", 60, 12, 4, 30, 0},
			{"after another peak", 120, 10, 300, 30, 1},
			{"in use for long", 300, 250, 500, 280, 1},
			{"as the heap swings", 500, 250, 300, 280, 0},
			{"with more than the limit in use", 1000, 600, 800, 650, 1},
			{"when it is not in use any more", 300, 10, 4, 35, 1},
		} {
			become(step.held, step.live, step.allocated, step.left)
			if time.Sleep(time.Minute - 1); times() != step.freed {
				t.Errorf("%s: %d times, not %d", step.what, times(), step.freed)
			}
			mu.Lock()
			if want := max(softLimit, step.live*mb/2*3); limit != want {
				t.Errorf("%s: the limit is %d MB", step.what, limit/mb)
			}
			mu.Unlock()
			if time.Sleep(time.Hour); times() > step.freed {
				t.Errorf("%s: again without a peak", step.what)
			}
		}
		for range 600 {
			become(200, 10, 30, 30)
			time.Sleep(time.Second)
			if times() > 0 {
				t.Fatal("while there is work")
			}
		}
		cancel()
		running.Wait()
	})
}

func TestMeasure(t *testing.T) {
	if u := measure(); u.held == 0 || u.allocated == 0 || u.held < u.live {
		t.Errorf("%+v", u)
	}
}
