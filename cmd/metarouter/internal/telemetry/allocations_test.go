//go:build unix && !race

package telemetry

import (
	"runtime"
	"testing"
)

// The most that a call may allocate, all in all: how often for one of 100 bytes, and how many bytes for
// larger ones. Less is welcome, and then to be written here.
var maxAllocated = map[string]struct{ times, bytes64KiB, bytes1MiB float64 }{
	"stdio":         {77, 600_000, 8 << 20},
	"HTTP, session": {118, 700_000, 10 << 20},
	"HTTP, modern":  {133, 900_000, 13 << 20},
	"HTTP, plain":   {113, 800_000, 12 << 20},
}

// checkAllocations compares calls of several sizes, with messages of call, with the bounds of their way.
func checkAllocations(t *testing.T, way string, ask func(message []byte), call func(size int) []byte) {
	most := maxAllocated[way]
	for _, tt := range []struct {
		what        string
		calls, size int
		times       bool // else bytes
		most        float64
	}{
		{"allocations of a call of 100 bytes", 100, 100, true, most.times},
		{"bytes that a call of 64 KiB allocates", 5, 64 << 10, false, most.bytes64KiB},
		{"bytes that a call of 1 MiB allocates", 3, 1 << 20, false, most.bytes1MiB},
	} {
		message := call(tt.size)
		n := leastOf(2, func() float64 { return allocated(ask, message, tt.calls, tt.times) })
		if n > tt.most {
			t.Errorf("%s: %s: %.1f, want at most %.0f", way, tt.what, n, tt.most)
		} else {
			t.Logf("%s: %s: %.1f", way, tt.what, n)
		}
	}
}

// leastOf returns the least of several measurements: other goroutines allocate too, at times.
func leastOf(tries int, measure func() float64) float64 {
	least := measure()
	for range tries - 1 {
		least = min(least, measure())
	}
	return least
}

// allocated returns how often a call allocates, in whole numbers as [testing.AllocsPerRun], or how many bytes.
func allocated(ask func(message []byte), message []byte, calls int, times bool) float64 {
	for range 2 {
		ask(message)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range calls {
		ask(message)
	}
	runtime.ReadMemStats(&after)
	if times {
		return float64((after.Mallocs - before.Mallocs) / uint64(calls)) // the rest is of other goroutines
	}
	return float64(after.TotalAlloc-before.TotalAlloc) / float64(calls)
}
