package service

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

func TestProcessors(t *testing.T) {
	now := time.Now()
	p := processors{most: 6, now: 6, at: now, busy: now}
	var used time.Duration
	for _, step := range []struct {
		what  string
		times int
		after time.Duration
		share float64 // processors that are used meanwhile
		want  int
	}{
		{"at the start", 1, leastWindow, 5, 6},
		{"at once", 1, leastWindow, 0, 6},
		{"nearly calm long enough", 1, calmTime - 2*leastWindow, 0, 6},
		{"calm long enough", 1, leastWindow, 0, 3},
		{"with what one could do", 1, calmTime, 0.5, 1},
		{"with nothing to do", 5, calmTime, 0, 1},
		{"too soon to tell", 1, leastWindow - 1, 1, 1},
		{"with little more", 1, leastWindow, 0.6, 1},
		{"with too much", 1, leastWindow, 0.9, 2},
		{"with too much for two", 1, leastWindow, 1.9, 4},
		{"with too much for four", 1, leastWindow, 3.9, 6},
		{"with as much as there is", 9, leastWindow, 6, 6},
		{"with what half could hardly do", 9, calmTime, 2, 6},
		{"with what half can do", 1, calmTime, 1.7, 3},
	} {
		got := 0
		for range step.times {
			now = now.Add(step.after)
			used += time.Duration(step.share * float64(step.after))
			got = p.measured(now, used)
		}
		if got != step.want {
			t.Errorf("%s: %d processors, want %d", step.what, got, step.want)
		}
	}
}

func TestFollowLoad(t *testing.T) {
	if runtime.GOMAXPROCS(0) == 1 {
		t.Skip("needs two processors")
	}
	t.Setenv("GOMAXPROCS", "")
	before := runtime.GOMAXPROCS(0)
	began := time.Now()
	var used atomic.Int64
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		followLoad(ctx, func() time.Duration { return time.Duration(used.Load()) })
	}()
	await(t, "one processor for no work", func() bool { return runtime.GOMAXPROCS(0) == 1 })
	await(t, "more for work that leaves garbage", func() bool {
		used.Store(2 * int64(time.Since(began)))
		runtime.GC()
		return runtime.GOMAXPROCS(0) > 1
	})
	await(t, "one again", func() bool { return runtime.GOMAXPROCS(0) == 1 })
	cancel()
	<-ended
	if now := runtime.GOMAXPROCS(0); now != before {
		t.Errorf("%d processors at the end, want %d as before", now, before)
	}
}

// An environment that says how many processors to use is obeyed.
func TestFollowLoadOfEnvironment(t *testing.T) {
	before := runtime.GOMAXPROCS(2)
	defer runtime.GOMAXPROCS(before)
	t.Setenv("GOMAXPROCS", "2")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	followLoad(ctx, func() time.Duration {
		t.Error("it measures the load")
		cancel()
		return 0
	})
	if now := runtime.GOMAXPROCS(0); now != 2 {
		t.Errorf("%d processors", now)
	}
}

// await waits until f reports true.
func await(t *testing.T, what string, f func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !f(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within a minute", what)
		}
	}
}

func TestCPUTime(t *testing.T) {
	before := cpuTime()
	for end := time.Now().Add(time.Minute); cpuTime() == before; {
		if time.Now().After(end) {
			t.Fatal("a minute of work used no CPU time")
		}
	}
}
