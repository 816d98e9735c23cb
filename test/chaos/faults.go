//go:build linux

package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A fault is one kind of failure. do causes it and returns a function that undoes it after the
// time lasts, nil if nothing needs to be undone. done is false if do found no target.
type fault struct {
	what   string
	weight int // its relative frequency
	lasts  time.Duration
	do     func(*faulter) (undo func(), done bool)
}

var faults = map[string]fault{
	"kill":    {"a server is killed", 20, 0, signalServer(syscall.SIGKILL)},
	"stop":    {"a server is stopped for up to 10 s", 12, 10 * time.Second, (*faulter).stopServer},
	"stdin":   {"a server closes its stdin", 6, 0, signalServer(closeStdin)},
	"stdout":  {"a server closes its stdout", 6, 0, signalServer(closeStdout)},
	"garbage": {"a server writes to stdout what is no message", 15, 0, signalServer(makeNoise)},
	"child":   {"a server starts a process without an environment in its own session", 6, 0, signalServer(leaveChild)},
	"cut":     {"a server writes half a message", 4, 0, signalServer(cutLine)},
	"edit":    {"the configuration is edited", 10, 5 * time.Second, (*faulter).edit},
	"slow":    {"a client reads at a crawl for up to 6 s", 8, 6 * time.Second, (*faulter).slowClient},
	"leave":   {"a client leaves and comes back", 3, time.Second, (*faulter).leave},
	"disk":    {"the disk of the data folder is full for up to 5 s", 4, 5 * time.Second, (*faulter).fillDisk},
	"files":   {"a router may open no more files for up to 5 s", 5, 5 * time.Second, (*faulter).fewFiles},
	"pause":   {"a router is stopped for up to 12 s, so that all its deadlines pass at once", 4, 12 * time.Second, (*faulter).pauseRouter},
	"router":  {"a router is killed", 2, 5 * time.Second, (*faulter).killRouter},
}

// usual are the faults of "all". Killing routers is not among them, since their clients lose calls.
func usual() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(faults)), func(name string) bool { return name == "router" })
}

func faultsNamed(list string) ([]string, error) {
	var names []string
	for name := range strings.SplitSeq(list, ",") {
		switch _, known := faults[name]; {
		case name == "all":
			names = append(names, usual()...)
		case known:
			names = append(names, name)
		case name != "none" && name != "":
			return nil, fmt.Errorf("unknown fault %q", name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), nil
}

// A faulter causes faults.
type faulter struct {
	*run
	random *rand.Rand // used by the goroutine of rampage only

	mu    sync.Mutex // guards the fields below
	count map[string]int
	busy  map[string]bool // targets that have the fault now
}

// rampage causes faults until ctx ends, and returns when all are undone.
func (f *faulter) rampage(ctx context.Context) {
	if len(f.faults) == 0 {
		return
	}
	var undoing sync.WaitGroup
	defer undoing.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(100+f.random.IntN(400)) * time.Millisecond):
		}
		name := f.choose()
		undo, done := faults[name].do(f)
		if undo == nil {
			undo = func() {}
		}
		if !done {
			undo()
			continue
		}
		f.mu.Lock()
		f.count[name]++
		f.mu.Unlock()
		after := time.Duration(f.random.Int64N(int64(faults[name].lasts) + 1))
		undoing.Go(func() {
			select {
			case <-ctx.Done():
			case <-time.After(after):
			}
			undo()
		})
	}
}

func (f *faulter) choose() string {
	all := 0
	for _, name := range f.faults {
		all += faults[name].weight
	}
	n := f.random.IntN(all)
	for _, name := range f.faults {
		if n -= faults[name].weight; n < 0 {
			return name
		}
	}
	panic("unreachable")
}

// begin reports whether the target has no such fault, and marks it until end is called.
func (f *faulter) begin(key string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	was := f.busy[key]
	f.busy[key] = true
	return !was
}

func (f *faulter) end(key string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.busy, key)
}

// any returns a random process of a role; ok is false without one.
func (f *faulter) any(r role) (p process, ok bool) {
	found := of(r, processes(f.bin))
	if len(found) == 0 {
		return p, false
	}
	return found[f.random.IntN(len(found))], true
}

func signalServer(s syscall.Signal) func(*faulter) (func(), bool) {
	return func(f *faulter) (func(), bool) {
		p, ok := f.any(servers)
		return nil, ok && syscall.Kill(p.pid, s) == nil
	}
}

func (f *faulter) stopServer() (undo func(), done bool)  { return f.stop(servers) }
func (f *faulter) pauseRouter() (undo func(), done bool) { return f.stop(routers) }

func (f *faulter) stop(r role) (undo func(), done bool) {
	p, ok := f.any(r)
	key := fmt.Sprintf("stop %d", p.pid)
	if !ok || !f.begin(key) {
		return nil, false
	}
	return func() {
		syscall.Kill(p.pid, syscall.SIGCONT)
		f.end(key)
	}, syscall.Kill(p.pid, syscall.SIGSTOP) == nil
}

// restarting is how long the next router has to read the file.
const restarting = 2 * time.Second

// killRouter kills a router while the configuration is valid, and stays so: a shared router that starts
// with a broken file exits, and then each of its clients has a router of its own until it leaves.
func (f *faulter) killRouter() (undo func(), done bool) {
	p, ok := f.any(routers)
	if !ok || !f.begin("router") { // not at once again, so that clients make calls in between
		return nil, false
	}
	release, ok := f.config.hold()
	if !ok {
		f.end("router")
		return nil, false
	}
	return func() {
		time.Sleep(restarting)
		release()
		f.end("router")
	}, syscall.Kill(p.pid, syscall.SIGKILL) == nil
}

func (f *faulter) leave() (undo func(), done bool) {
	c := f.all[f.random.IntN(len(f.all))]
	if !f.begin("leave " + c.name) {
		return nil, false
	}
	return func() {
		if err := c.comeBack(); err != nil && !c.mayEnd {
			f.problem("a client leaves and comes back: %v", err)
		}
		f.end("leave " + c.name)
	}, true
}

func (f *faulter) edit() (undo func(), done bool) {
	back, done, err := f.config.edit(f.random)
	if err != nil {
		f.problem("edit the configuration: %v", err)
	}
	return func() {
		if back == nil {
			return
		}
		if err := back(); err != nil {
			f.problem("edit the configuration: %v", err)
		}
	}, done
}

func (f *faulter) slowClient() (undo func(), done bool) {
	c := f.all[f.random.IntN(len(f.all))]
	c.slow.begin(time.Minute)
	return c.slow.end, true
}

// fewFiles limits a router to a few more open files than it has now.
func (f *faulter) fewFiles() (undo func(), done bool) {
	p, ok := f.any(routers)
	key := fmt.Sprintf("files %d", p.pid)
	if !ok || !f.begin(key) {
		return nil, false
	}
	var usual unix.Rlimit
	if unix.Prlimit(p.pid, unix.RLIMIT_NOFILE, nil, &usual) != nil {
		f.end(key)
		return nil, false
	}
	few := usual
	few.Cur = uint64(len(openFiles(p.pid)) + f.random.IntN(4))
	return func() {
		// An error means that the process has ended.
		_ = unix.Prlimit(p.pid, unix.RLIMIT_NOFILE, &usual, nil)
		f.end(key)
	}, unix.Prlimit(p.pid, unix.RLIMIT_NOFILE, &few, nil) == nil
}

// fillDisk writes a file until the disk is full.
func (f *faulter) fillDisk() (undo func(), done bool) {
	if !f.smallDisk || !f.begin("disk") {
		return nil, false
	}
	ballast := f.data + "/ballast"
	if err := fill(ballast); err != nil {
		f.problem("fill the disk: %v", err)
	}
	return func() {
		os.Remove(ballast)
		f.end("disk")
	}, true
}
