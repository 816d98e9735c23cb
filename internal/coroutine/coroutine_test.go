package coroutine

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A function runs in place of the goroutine that starts it and then of the one that wakes it,
// until it leaves.
func TestInPlace(t *testing.T) {
	var p Pool
	var c *Coroutine
	var steps []string // without a mutex: only one goroutine at a time runs
	p.Start(func(self *Coroutine) {
		c = self
		steps = append(steps, "started")
		c.Wait()
		steps = append(steps, "woken")
		if !c.HoldsUp() {
			t.Error("it holds nobody up after it was woken")
		}
		c.Wait()
		steps = append(steps, "ended")
	})
	steps = append(steps, "start returned")
	c.Wake()
	steps = append(steps, "wake returned")
	c.Wake()
	want := []string{"started", "start returned", "woken", "wake returned", "ended"}
	for i, step := range want {
		if i >= len(steps) || steps[i] != step {
			t.Fatalf("steps: %q, want %q", steps, want)
		}
	}
	p.Close()
}

// A function that has left blocks nobody, and is in place again once it was woken.
func TestLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Pool
		blocked := make(chan struct{})
		var c *Coroutine
		ended := false
		p.Start(func(self *Coroutine) {
			c = self
			c.Leave()
			c.Leave() // does nothing
			if c.HoldsUp() {
				t.Error("it has left, and holds somebody up")
			}
			<-blocked
			c.Wait()
			if !c.HoldsUp() {
				t.Error("it was woken, and holds nobody up")
			}
			ended = true
		})
		close(blocked)
		synctest.Wait()
		if c.Wake(); !ended {
			t.Error("Wake has returned before the function ended")
		}
		p.Close()
	})
	var none *Coroutine
	none.Leave()
	if none.HoldsUp() {
		t.Error("no coroutine holds somebody up")
	}
}

// A coroutine that was woken before it waits does not wait.
func TestWokenBefore(t *testing.T) {
	var p Pool
	p.Start(func(c *Coroutine) {
		c.Wake()
		c.Wake()
		c.Wait()
	})
	p.Close()
}

// Each coroutine that waits until a deadline is woken then, also one whose deadline is earlier than
// those before it.
func TestWaitUntil(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Pool
		begin := time.Now()
		var mu sync.Mutex // guards ended
		ended := make(map[time.Duration]time.Duration)
		for _, limit := range []time.Duration{time.Minute, time.Second, time.Hour} {
			p.Start(func(c *Coroutine) {
				for deadline := begin.Add(limit); time.Now().Before(deadline); {
					c.WaitUntil(deadline)
				}
				mu.Lock()
				ended[limit] = time.Since(begin)
				mu.Unlock()
			})
		}
		p.Start(func(c *Coroutine) { c.Wake(); c.WaitUntil(begin.Add(time.Millisecond)) }) // ends before
		time.Sleep(time.Minute)
		synctest.Wait()
		mu.Lock()
		if ended[time.Second] != time.Second || ended[time.Minute] != time.Minute || len(ended) != 2 {
			t.Errorf("after a minute: %v", ended)
		}
		mu.Unlock()
		time.Sleep(time.Hour)
		synctest.Wait()
		if ended[time.Hour] != time.Hour {
			t.Errorf("at the end: %v", ended)
		}
		p.Start(func(c *Coroutine) { c.WaitUntil(time.Now().Add(time.Hour)) }) // when the alarm is not set any more
		time.Sleep(2 * time.Hour)
		p.Close()
	})
}

// A coroutine that is woken before its deadline is forgotten, and the alarm ends with the pool.
func TestWokenBeforeDeadline(t *testing.T) {
	var p Pool
	var c *Coroutine
	p.Start(func(self *Coroutine) {
		c = self
		c.WaitUntil(time.Now().Add(time.Hour))
	})
	c.Wake()
	if n := len(p.alarm.deadlines); n != 0 {
		t.Errorf("%d deadlines are kept", n)
	}
	p.Close()
	if p.alarm.timer.Stop() {
		t.Error("the timer runs on")
	}
}

// Close waits for a function that has left.
func TestCloseWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p Pool
		ended := false
		p.Start(func(c *Coroutine) {
			c.Leave()
			time.Sleep(time.Second)
			ended = true
		})
		if p.Close(); !ended {
			t.Error("it has not ended")
		}
	})
}

// However many goroutines wake it, only one runs it at a time, and no wake is lost.
func TestWakers(t *testing.T) {
	const wakers, each = 8, 2000
	var p Pool
	var posted atomic.Int64
	started := make(chan *Coroutine, 1)
	inside, taken := 0, int64(0)
	p.Start(func(c *Coroutine) {
		started <- c
		for taken < wakers*each {
			if n := posted.Load(); n > taken {
				inside++ // the race detector sees two at a time
				taken = n
				if taken%7 == 0 {
					c.Leave()
				}
				continue
			}
			c.Wait()
		}
	})
	c := <-started
	var all sync.WaitGroup
	for range wakers {
		all.Go(func() {
			for range each {
				posted.Add(1)
				c.Wake()
			}
		})
	}
	all.Wait()
	p.Close() // hangs if a wake was lost
	if taken != wakers*each || inside == 0 {
		t.Errorf("taken %d of %d", taken, wakers*each)
	}
}

// Coroutines that are kept for the next function are used again, and end with the pool.
func TestReuse(t *testing.T) {
	var p Pool
	seen := make(map[*Coroutine]bool)
	for range 3 * maxIdle {
		p.Start(func(c *Coroutine) { seen[c] = true })
	}
	if len(seen) != 1 {
		t.Errorf("%d coroutines for functions that run one after the other", len(seen))
	}
	var waiting []*Coroutine
	for range 3 * maxIdle {
		p.Start(func(c *Coroutine) {
			waiting = append(waiting, c)
			c.Wait()
		})
	}
	for _, c := range waiting {
		c.Wake()
	}
	if len(p.idle) != maxIdle {
		t.Errorf("%d are kept, want %d", len(p.idle), maxIdle)
	}
	p.Close()
}

// As many functions as a busy client has use the coroutines of those before them.
func TestKept(t *testing.T) {
	var p Pool
	defer p.Close()
	seen := make(map[*Coroutine]int)
	for range 3 {
		var waiting []*Coroutine
		for range 64 {
			p.Start(func(self *Coroutine) {
				waiting = append(waiting, self)
				self.Wait()
			})
		}
		for _, c := range waiting {
			seen[c]++
			c.Wake()
		}
	}
	if len(seen) != 64 {
		t.Errorf("%d coroutines for 64 functions at a time", len(seen))
	}
}

// BenchmarkCall compares a function that waits once as a coroutine and as a goroutine.
func BenchmarkCall(b *testing.B) {
	b.Run("coroutine", func(b *testing.B) {
		var p Pool
		defer p.Close()
		for b.Loop() {
			var c *Coroutine
			p.Start(func(self *Coroutine) { c = self; c.Wait() })
			c.Wake()
		}
	})
	b.Run("goroutine", func(b *testing.B) {
		work, answer, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
		go func() {
			for range work {
				<-answer
				done <- struct{}{}
			}
		}()
		defer close(work)
		for b.Loop() {
			work <- struct{}{}
			answer <- struct{}{}
			<-done
		}
	})
}
