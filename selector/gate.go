package selector

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mcp-metarouter/metarouter/session"
)

const (
	// maxQueued bounds the calls that wait for one server.
	maxQueued = 1000

	// breakAfter is after how many calls in a row that were never answered a server
	// is called no more, for breakTime.
	breakAfter = 5
	breakTime  = 10 * time.Second
)

// errNotLetIn is wrapped by the errors of calls that did not pass the gate.
var errNotLetIn error = notLetIn{}

// A notLetIn error wraps [session.ErrNotSent] without saying so twice.
type notLetIn struct{}

func (notLetIn) Error() string        { return "nothing was called" }
func (notLetIn) Is(target error) bool { return target == session.ErrNotSent }

// A gate is what the calls to one server pass: so many at a time, the others in
// the order of their coming, and none for a while where none is answered.
type gate struct {
	mu      sync.Mutex // guards what follows
	under   int        // way
	waiting []chan struct{}
	unheard int       // calls in a row that were never answered
	shut    time.Time // until when no call passes
}

// enter waits for the call's turn. Unless it fails, leave must be called, which may
// be done more than once. At most limit calls are let in at a time; 0 is any number.
func (g *gate) enter(ctx context.Context, server string, limit int) (leave func(), err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isShut() {
		return nil, g.silence(server)
	}
	if limit == 0 || g.under < limit && len(g.waiting) == 0 {
		g.under++
	} else if err := g.wait(ctx, server, limit); err != nil {
		return nil, err
	} else if g.isShut() { // meanwhile
		g.next(limit)
		return nil, g.silence(server)
	}
	if g.unheard >= breakAfter {
		g.shut = time.Now().Add(breakTime) // but for this one
	}
	return g.leaver(limit), nil
}

// isShut reports whether no call passes now. g.mu must be held.
func (g *gate) isShut() bool { return g.unheard >= breakAfter && time.Now().Before(g.shut) }

// silence says why no call passes now. g.mu must be held.
func (g *gate) silence(server string) error {
	return fmt.Errorf("%w: server %q did not answer the last %d calls, so none is sent to it for the next %s; \"metarouter servers\" says how it is",
		errNotLetIn, server, g.unheard, time.Until(g.shut).Round(100*time.Millisecond))
}

// wait waits for a turn. g.mu must be held, and is not meanwhile.
func (g *gate) wait(ctx context.Context, server string, limit int) error {
	if len(g.waiting) >= maxQueued {
		return fmt.Errorf("%w: server %q is busy: %d calls are under way and %d wait; try again later, or set a higher \"maxConcurrent\" in its entry",
			errNotLetIn, server, g.under, len(g.waiting))
	}
	turn := make(chan struct{})
	g.waiting = append(g.waiting, turn)
	g.mu.Unlock()
	select {
	case <-turn:
		g.mu.Lock()
		return nil
	case <-ctx.Done():
		g.mu.Lock()
	}
	if i := slices.Index(g.waiting, turn); i >= 0 {
		g.waiting = slices.Delete(g.waiting, i, i+1)
	} else { // it came at the same time
		g.next(limit)
	}
	return context.Cause(ctx)
}

func (g *gate) leaver(limit int) func() {
	return sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.next(limit)
	})
}

// next ends one call's stay, and lets in who waits. g.mu must be held.
func (g *gate) next(limit int) {
	g.under--
	for len(g.waiting) > 0 && (limit == 0 || g.under < limit) {
		g.under++
		close(g.waiting[0])
		g.waiting = slices.Delete(g.waiting, 0, 1)
	}
}

// judge takes down what the end of a call says of the server. One that asked its
// client something may have waited for that.
func (g *gate) judge(ctx context.Context, err error, asked bool) {
	_, refused := errors.AsType[*session.Error](err)
	_, late := errors.AsType[*lateError](err)
	switch {
	case err == nil || refused:
		g.note(true)
	case late && !asked || errors.Is(err, session.ErrClosed) && !errors.Is(err, session.ErrNotSent) && ctx.Err() == nil:
		g.note(false)
	}
}

// note takes down whether a call was answered, in whatever way.
func (g *gate) note(answered bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if answered {
		g.unheard = 0
		return
	}
	if g.unheard++; g.unheard >= breakAfter {
		g.shut = time.Now().Add(breakTime)
	}
}

// gates has a gate for each server.
type gates struct{ all sync.Map } // name -> *gate

func (g *gates) of(server string) *gate {
	if found, ok := g.all.Load(server); ok {
		return found.(*gate)
	}
	found, _ := g.all.LoadOrStore(server, new(gate))
	return found.(*gate)
}

// A patron is a client whose call has passed a gate. While the client is asked for
// something, which may take a person's time, the call keeps nobody waiting.
type patron struct {
	session.Client
	leave func()
	asked atomic.Bool
}

func (p *patron) Ask(ctx context.Context, server string, m session.Message) (json.RawMessage, error) {
	p.asked.Store(true)
	p.leave()
	return p.Client.Ask(ctx, server, m)
}
