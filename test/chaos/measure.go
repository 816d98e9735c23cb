//go:build linux

package main

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// A sample has the figures of the run at one time.
type sample struct {
	at    time.Duration // since the start of the load
	calls tally
	usage        // of all routers together
	count [3]int // processes by role, without kids
}

// A meter takes samples.
type meter struct {
	*run
	samples       []sample
	before, after sample // without load
}

// maxSamples bounds the number of samples, and so the points of the plot.
const maxSamples = 600

// start takes samples until the returned function is called.
func (m *meter) start(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	began := time.Now()
	tick := time.NewTicker(max(time.Second, m.lasts/maxSamples))
	go func() {
		defer close(done)
		defer tick.Stop()
		for {
			s := m.sample()
			s.at = time.Since(began)
			m.samples = append(m.samples, s)
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

func (m *meter) sample() (s sample) {
	for _, p := range processes(m.bin) {
		if p.role == kids {
			continue
		}
		s.count[p.role]++
		if p.role == routers {
			u := usageOf(p.pid)
			s.files += u.files
			s.memory += u.memory
			s.threads += u.threads
		}
	}
	s.calls = m.ledger.sum()
	return s
}

// settled waits until the figures without load are steady, and returns them.
func (r *run) settled(ctx context.Context) sample {
	r.rest()
	last := r.meter.sample()
	for range 10 {
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return last
		}
		s := r.meter.sample()
		if s.files == last.files && s.count == last.count {
			return s
		}
		last = s
	}
	return last
}

// rest closes the idle connections of clients over HTTP.
func (r *run) rest() {
	for _, c := range r.all {
		c.rest()
	}
}

const (
	// settling is the time in which the figures must be as before: replaced sessions may
	// last 30 s, and the Go runtime returns memory within minutes.
	settling = 90 * time.Second

	// lingering is the longest time that a process may outlive the last client.
	lingering = time.Minute

	// Memory may grow by this much: the size of the heap depends on the time of the last
	// garbage collection.
	memoryFactor = 1.3
	memorySlack  = 16 << 20 // for each router
)

// compare waits until descriptors, processes and memory are as before, and reports the figures
// that are not.
func (r *run) compare(ctx context.Context, before sample) {
	r.meter.before = before
	limit := int64(float64(before.memory)*memoryFactor) + int64(before.count[routers])*memorySlack
	var now sample
	for until := time.Now().Add(settling); ; {
		r.rest()
		now = r.meter.sample()
		r.meter.after = now
		if now.files <= before.files && now.count == before.count && now.memory <= limit && len(orphans(processes(r.bin))) == 0 {
			break
		}
		if now.count[servers] < before.count[servers] { // the session of all legacy clients opens at their next call
			r.everyServerAnswers(ctx, "without load")
		}
		if time.Now().After(until) || ctx.Err() != nil {
			r.reportDifference(before, now, limit)
			break
		}
		time.Sleep(500 * time.Millisecond)
	}
	for _, p := range orphans(processes(r.bin)) {
		r.problem("process %d has outlived its server (%s)", p.pid, p.server)
	}
	if left := zombies(processes(r.bin)); len(left) > 0 {
		r.problem("routers did not reap their children %v", left)
	}
}

func (r *run) reportDifference(before, now sample, limit int64) {
	if now.count != before.count {
		r.problem("%d routers, %d guards and %d servers run, before there were %d, %d and %d",
			now.count[routers], now.count[guards], now.count[servers], before.count[routers], before.count[guards], before.count[servers])
	}
	if now.files > before.files {
		r.problem("the routers have %d open files, before %d", now.files, before.files)
		for _, p := range of(routers, processes(r.bin)) {
			say("router %d has open %s", p.pid, kinds(openFiles(p.pid)))
		}
	}
	if now.memory > limit {
		r.problem("the routers use %d MB of memory, before %d MB", now.memory>>20, before.memory>>20)
	}
}

// lookForRemains reports processes and files that the run left behind.
func (r *run) lookForRemains() {
	until := time.Now().Add(lingering)
	for len(processes(r.bin)) > 0 && time.Now().Before(until) {
		time.Sleep(200 * time.Millisecond)
	}
	for _, p := range processes(r.bin) {
		r.problem("process %d is left, a %s", p.pid, [...]string{"router", "guard", "server " + p.server, p.server}[p.role])
	}
	filepath.WalkDir(r.dir, func(path string, entry fs.DirEntry, err error) error {
		temporary := strings.HasPrefix(entry.Name(), "tmp-") || filepath.Dir(path) == r.temp
		if err == nil && (temporary || entry.Type()&fs.ModeSocket != 0) {
			r.problem("%s is left", path)
		}
		return nil
	})
	logs, _ := filepath.Glob(filepath.Join(r.dir, "*.log"))
	crashes, _ := filepath.Glob(filepath.Join(r.data, "*.log"))
	for _, log := range append(logs, crashes...) {
		b, err := os.ReadFile(log)
		if err != nil {
			r.problem("read a log: %v", err)
		}
		for _, words := range []string{"DATA RACE", "panic: ", "fatal error: "} {
			if bytes.Contains(b, []byte(words)) {
				r.problem("%s has %q", log, strings.TrimSpace(words))
			}
		}
	}
}
