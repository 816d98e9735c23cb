package service

import (
	"context"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/signal"
)

const (
	// leastWindow is how long work is measured at least.
	leastWindow = 20 * time.Millisecond

	// A router gets twice the processors at once when it uses more than tooMuch of those it has.
	// It gets half of them when it has used less than tooLittle of that half for calmTime.
	tooMuch   = 0.85
	tooLittle = 0.6
	calmTime  = 500 * time.Millisecond
)

// processors says how many processors Go code may use at once. With one, a goroutine that wakes
// another one wakes no thread, which would take a third of the CPU time of a short call.
type processors struct {
	most, now int
	at        time.Time     // of the last measurement
	used      time.Duration // CPU time until then
	busy      time.Time     // when the router last used more than tooLittle
}

// measured notes the CPU time that was used until now. It returns how many processors the
// router is to have.
func (p *processors) measured(now time.Time, used time.Duration) int {
	window := now.Sub(p.at)
	if window < leastWindow {
		return p.now
	}
	share := float64(used-p.used) / float64(window)
	p.at, p.used = now, used
	if share > tooLittle*float64(p.now/2) {
		p.busy = now
	}
	switch {
	case share > tooMuch*float64(p.now):
		p.now = min(2*p.now, p.most)
	case p.now > 1 && now.Sub(p.busy) >= calmTime:
		p.now, p.busy = p.now/2, now
	}
	return p.now
}

// followLoad has the runtime use as many processors as the work needs, until ctx ends. It begins
// with all of them, which the start of the servers needs. It looks when garbage was collected,
// since work leaves garbage, and also now and then while more than one processor is in use. An
// environment with GOMAXPROCS decides itself. cpuTime returns what this process has used.
func followLoad(ctx context.Context, cpuTime func() time.Duration) {
	most := runtime.GOMAXPROCS(0)
	if most == 1 || os.Getenv("GOMAXPROCS") != "" {
		return
	}
	defer runtime.SetDefaultGOMAXPROCS()
	collected := make(chan struct{}, 1)
	var ended atomic.Bool
	defer ended.Store(true)
	afterCollection(func() (again bool) {
		signal.Leave(collected)
		return !ended.Load()
	})
	tick := time.NewTicker(calmTime / 5)
	defer tick.Stop()
	now := time.Now()
	p := processors{most: most, now: most, at: now, used: cpuTime(), busy: now}
	for {
		select {
		case <-ctx.Done():
			return
		case <-collected:
		case <-tick.C:
		}
		before := p.now
		if p.measured(time.Now(), cpuTime()) == before {
			continue
		}
		runtime.GOMAXPROCS(p.now)
		if tick.Stop(); p.now > 1 {
			tick.Reset(calmTime / 5)
		}
	}
}
