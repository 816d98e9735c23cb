package service

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// memoryCheck is how often the memory is looked at.
	memoryCheck = 10 * time.Second

	// softLimit is from how much memory on garbage is collected more often, in bytes. Else
	// the heap would grow to twice what is in use, as when strangers fill all that the bodies
	// of requests may take.
	softLimit = 450 << 20

	// littleMemory is never given back by us, and swing is how much more than twice the least
	// is no peak, in bytes.
	littleMemory = 64 << 20
	swing        = 16 << 20
)

// A usage is the memory of this process, in bytes.
type usage struct {
	held      uint64 // of the system
	live      uint64 // in use at the last garbage collection
	allocated uint64 // since the start, in all
}

func measure() usage {
	s := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
		{Name: "/gc/heap/live:bytes"}, {Name: "/gc/heap/allocs:bytes"},
	}
	metrics.Read(s)
	return usage{s[0].Value.Uint64() - s[1].Value.Uint64(), s[2].Value.Uint64(), s[3].Value.Uint64()}
}

// returnMemory gives memory back to the system once after each peak, until ctx ends. The Go
// runtime does so only while it collects garbage, which a router without work does not. It
// also sets how much memory the runtime shall try not to exceed.
func returnMemory(ctx context.Context, measure func() usage, free func(), limit func(uint64)) {
	limit(softLimit)
	look := time.NewTicker(memoryCheck)
	defer look.Stop()
	var p peaks
	for {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
		now := measure()
		limit(max(softLimit, now.live/2*3)) // less would have the runtime do little else
		if p.over(now) {
			free()
			p.least = measure().held
		}
	}
}

// limitMemory tells the runtime how much memory it shall try not to exceed, unless the
// environment says so.
func limitMemory(bytes uint64) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(int64(bytes))
	}
}

// A peaks finds the ends of peaks. The zero value has seen nothing.
type peaks struct {
	least     uint64 // held after the last peak, or less if less is in use now
	allocated uint64 // at the last look
}

// over reports whether the memory is that of a peak, and the work that took it has ended.
func (p *peaks) over(u usage) bool {
	quiet := u.allocated-p.allocated < u.held/8
	p.allocated = u.allocated
	p.least = min(p.least, 2*u.live) // the heap grows to twice what is in use before it is collected
	return quiet && u.held > max(littleMemory, 2*p.least+swing)
}
