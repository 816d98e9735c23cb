//go:build unix && !race

package telemetry

import (
	"runtime"
	"testing"
)

// maxAllocations are those of a call of 100 bytes, all in all, and maxAllocated the
// bytes of one of 1 MiB. Less is welcome, and then to be written here.
const (
	maxAllocations = 68
	maxAllocated   = 8 << 20
)

// A call must not come to cost more without anybody noticing.
func TestAllocationsOfACall(t *testing.T) {
	const calls = 1000
	p := newPath(t)
	measure := func(calls, size int) (allocations, bytes float64) {
		line := echoCall(size)
		for range 10 {
			p.ask(t, line)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range calls {
			p.ask(t, line)
		}
		runtime.ReadMemStats(&after)
		return float64(after.Mallocs-before.Mallocs) / float64(calls), float64(after.TotalAlloc-before.TotalAlloc) / float64(calls)
	}
	if n, _ := measure(calls, 100); n > maxAllocations {
		t.Errorf("a call allocates %.1f times, want at most %d", n, maxAllocations)
	} else {
		t.Logf("%.1f allocations", n)
	}
	if _, n := measure(20, 1<<20); n > maxAllocated {
		t.Errorf("a call of 1 MiB allocates %.0f bytes, want at most %d", n, maxAllocated)
	} else {
		t.Logf("%.0f bytes for 1 MiB", n)
	}
}
