package service

import (
	"context"
	"runtime/metrics"
	"time"
)

const (
	// memoryCheck is how often the memory is looked at.
	memoryCheck = 20 * time.Second

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
// runtime does so only while it collects garbage, which a router without work does not.
func returnMemory(ctx context.Context, measure func() usage, free func()) {
	look := time.NewTicker(memoryCheck)
	defer look.Stop()
	var p peaks
	for {
		select {
		case <-look.C:
		case <-ctx.Done():
			return
		}
		if p.over(measure()) {
			free()
			p.least = measure().held
		}
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
