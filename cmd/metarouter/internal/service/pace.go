package service

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"
)

const (
	// leanGarbage is how much garbage a router without much work may have before it is
	// collected, in percent of what is in use.
	leanGarbage = 70

	// startGarbage is how much garbage it may have until the first collection, which comes after
	// startTime if not before: the start of ten servers is too short to be worth one.
	startGarbage = 200
	startTime    = time.Second

	// busyGarbage is how much a busy router may have at least, in bytes: with little in use,
	// collections would else take a tenth of its time.
	busyGarbage = 8 << 20

	// A router is busy after busyAfter collections, each less than a second after the one
	// before. A start with 200 servers takes about twelve.
	busyAfter = 30
	busyGap   = time.Second
)

// A pace says how much garbage may wait. The zero value has seen no collection.
type pace struct {
	last time.Time // of the last collection
	soon int       // collections in a row
}

// collected notes a collection, after which so many bytes are in use. It returns how much
// garbage may be there before the next one, in percent of what is in use.
func (p *pace) collected(now time.Time, live uint64) (percent int) {
	if p.soon++; now.Sub(p.last) >= busyGap {
		p.soon = 0
	}
	p.last = now
	if p.soon < busyAfter {
		return leanGarbage
	}
	return max(leanGarbage, int(100*busyGarbage/max(live, 1<<20)))
}

// collectOften has the runtime collect garbage early until stop is called, but for the start and
// busy times. It looks only when garbage was collected. An environment with GOGC decides itself.
func collectOften() (stop func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	percent := startGarbage
	before := debug.SetGCPercent(percent)
	var collected, stopped atomic.Bool
	var p pace
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	afterCollection(func() (again bool) {
		if stopped.Load() {
			return false
		}
		collected.Store(true)
		metrics.Read(live)
		if now := p.collected(time.Now(), live[0].Value.Uint64()); now != percent {
			percent = now
			debug.SetGCPercent(percent)
		}
		return true
	})
	started := time.AfterFunc(startTime, func() {
		if !collected.Load() {
			runtime.GC()
		}
	})
	return func() {
		started.Stop()
		stopped.Store(true)
		debug.SetGCPercent(before)
	}
}

// afterCollection calls f after each garbage collection until it returns false.
func afterCollection(f func() (again bool)) {
	runtime.AddCleanup(new([2]*int), func(f func() bool) {
		if f() {
			afterCollection(f)
		}
	}, f)
}
