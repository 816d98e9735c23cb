// Package coroutine runs functions on the goroutines of others until they wait.
//
// A goroutine that reads messages would usually hand each one to another goroutine, since a call
// may wait. Go's scheduler then wakes an idle thread to look for work, which costs more than all
// that the router does for a short call. A [Coroutine] has a stack of its own too, but runs in
// place of the goroutine that starts or wakes it: [Pool.Start] and [Coroutine.Wake] return when
// the function has ended or waits.
//
// Meanwhile the function holds up that goroutine. So it calls [Coroutine.Leave] before all that
// may block or take long, and goes on in a goroutine of its own. A nil Coroutine is a function
// that has its own goroutine anyway.
package coroutine

import (
	"iter"
	"sync"
	"sync/atomic"
	"time"
)

// maxIdle bounds the coroutines of a pool that are kept for the next function. A new one has to
// grow its stack, which takes up to a tenth of the time of a call. The garbage collector shrinks the
// stacks of those that are kept.
const maxIdle = 64

// A Pool runs functions as coroutines. The zero value is ready.
type Pool struct {
	running sync.WaitGroup // functions that have not ended
	alarm   alarm

	mu     sync.Mutex // guards what follows
	idle   []*Coroutine
	closed bool
}

// A Coroutine is a function that runs. One goroutine at a time runs it: the one that started or
// woke it, or its own. The state says who may be the next.
type Coroutine struct {
	pool  *Pool
	next  func() (pause, bool) // runs the function until it pauses
	stop  func()
	yield func(pause) bool
	f     func(*Coroutine)
	state atomic.Int32
	own   bool // it runs in a goroutine of its own
}

// A pause is why a function does not go on.
type pause int

const (
	ended pause = iota
	waiting
	leaving
)

// States of a coroutine.
const (
	running int32 = iota
	woken         // running, and not to wait
	parked        // whoever sets it to running must resume it
)

// Start runs f until it ends or waits, or leaves. It must not be called after Close.
func (p *Pool) Start(f func(*Coroutine)) {
	p.running.Add(1)
	c := p.take()
	c.f, c.own = f, false
	c.state.Store(running)
	c.resume()
}

// Close waits until all functions have ended, and ends the coroutines that are kept.
func (p *Pool) Close() {
	p.running.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	for _, c := range p.idle {
		c.stop()
	}
	p.idle = nil
	p.alarm.stop()
}

func (p *Pool) take() *Coroutine {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last := len(p.idle) - 1; last >= 0 {
		c := p.idle[last]
		p.idle = p.idle[:last]
		return c
	}
	c := &Coroutine{pool: p}
	c.next, c.stop = iter.Pull(c.run)
	return c
}

// put keeps a coroutine whose function has ended.
func (p *Pool) put(c *Coroutine) {
	p.mu.Lock()
	keep := len(p.idle) < maxIdle && !p.closed
	if keep {
		p.idle = append(p.idle, c)
	}
	p.mu.Unlock()
	if !keep {
		c.stop()
	}
}

// run runs one function after the other.
func (c *Coroutine) run(yield func(pause) bool) {
	c.yield = yield
	for again := true; again; again = yield(ended) {
		c.f(c)
		c.f = nil
	}
}

// resume runs the function until it ends, leaves, or waits without having been woken. The caller
// has set the state to running.
func (c *Coroutine) resume() {
	for {
		switch why, _ := c.next(); why {
		case ended:
			p := c.pool
			p.put(c)
			p.running.Done()
			return
		case leaving:
			c.own = true
			go c.resume() // Close waits for it
			return
		}
		if c.state.CompareAndSwap(running, parked) {
			return // it belongs to the one that wakes it
		}
		c.state.Store(running)
	}
}

// Wait returns when the coroutine is woken, or was woken since Wait last returned. It may return
// for no reason: call it in a loop that checks what it waits for. Only the function may call it.
// Then the function holds up the goroutine that has woken it, even if it had left before.
func (c *Coroutine) Wait() { c.yield(waiting) }

// WaitUntil does the same as Wait, and returns at the deadline too, unless that is zero.
func (c *Coroutine) WaitUntil(deadline time.Time) {
	if !deadline.IsZero() {
		c.pool.alarm.add(c, deadline)
		defer c.pool.alarm.remove(c)
	}
	c.Wait()
}

// Leave lets the function go on in a goroutine of its own, until it waits. Only the function may
// call it.
func (c *Coroutine) Leave() {
	if c.HoldsUp() {
		c.yield(leaving)
	}
}

// HoldsUp reports whether the function runs in place of another goroutine. Only the function may
// call it.
func (c *Coroutine) HoldsUp() bool { return c != nil && !c.own }

// Wake runs the coroutine until it ends, leaves or waits again, if it waits. Otherwise its next
// Wait returns at once.
func (c *Coroutine) Wake() {
	for {
		switch c.state.Load() {
		case parked:
			if c.state.CompareAndSwap(parked, running) {
				c.own = false
				c.resume()
				return
			}
		case running:
			if c.state.CompareAndSwap(running, woken) {
				return
			}
		case woken:
			return
		}
	}
}
