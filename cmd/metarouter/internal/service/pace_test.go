package service

import (
	"runtime"
	"runtime/metrics"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

func TestPace(t *testing.T) {
	const mb = 1 << 20
	var p pace
	now := time.Now()
	collect := func(times int, after time.Duration, live uint64) (percent int) {
		for range times {
			now = now.Add(after)
			percent = p.collected(now, live)
		}
		return percent
	}
	for _, step := range []struct {
		what  string
		times int
		after time.Duration
		live  uint64
		want  int
	}{
		{"during a start", busyAfter, time.Millisecond, 3 * mb, leanGarbage},
		{"during a long burst", 1, time.Millisecond, 4 * mb, 200},
		{"with nothing in use", 1, time.Millisecond, 0, 800},
		{"with much in use", 1, time.Millisecond, 100 * mb, leanGarbage},
		{"after a pause", 1, 2 * time.Second, 4 * mb, leanGarbage},
		{"with a collection now and then", 100, 2 * time.Second, 4 * mb, leanGarbage},
		{"during another burst", busyAfter, busyGap - 1, 4 * mb, 200},
	} {
		if percent := collect(step.times, step.after, step.live); percent != step.want {
			t.Errorf("%s: %d percent, want %d", step.what, percent, step.want)
		}
	}
}

// Where nothing else collects, the first collection comes by itself, and from then on garbage is
// collected early.
func TestCollectOften(t *testing.T) {
	before := garbagePercent()
	stop := collectOften()
	if got := garbagePercent(); got != startGarbage {
		t.Errorf("%d percent at the start", got)
	}
	mcptest.WaitFor(t, "the first collection", func() bool { return garbagePercent() == leanGarbage })
	stop()
	if got := garbagePercent(); got != before {
		t.Errorf("%d percent after the end, before it were %d", got, before)
	}
	t.Setenv("GOGC", "50")
	defer collectOften()()
	if got := garbagePercent(); got != before {
		t.Errorf("%d percent, although GOGC is set", got)
	}
}

// No collection is forced after another one, or after the end.
func TestCollectOftenForcesNone(t *testing.T) {
	t.Setenv("GOGC", "")
	forced := func() uint64 {
		sample := []metrics.Sample{{Name: "/gc/cycles/forced:gc-cycles"}}
		metrics.Read(sample)
		return sample[0].Value.Uint64()
	}
	for what, first := range map[string]func(stop func()){
		"another collection": func(func()) {
			for garbagePercent() == startGarbage { // until it is noticed
				runtime.GC()
			}
		},
		"the end": func(stop func()) { stop() },
	} {
		synctest.Test(t, func(t *testing.T) {
			stop := collectOften()
			defer stop()
			first(stop)
			before := forced()
			time.Sleep(2 * startTime)
			synctest.Wait()
			if n := forced() - before; n > 0 {
				t.Errorf("%d collections are forced after %s", n, what)
			}
		})
	}
}

// garbagePercent returns how much garbage may wait, in percent of what is in use.
func garbagePercent() uint64 {
	sample := []metrics.Sample{{Name: "/gc/gogc:percent"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

func TestAfterCollection(t *testing.T) {
	collected := make(chan bool)
	afterCollection(func() (again bool) { return <-collected })
	for _, again := range []bool{true, true, false} {
		for sent := false; !sent; { // a collection may come before the one that is waited for is prepared
			runtime.GC()
			select {
			case collected <- again:
				sent = true
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	runtime.GC()
	select {
	case collected <- true:
		t.Error("it is called after it returned false")
	case <-time.After(10 * time.Millisecond):
	}
}
