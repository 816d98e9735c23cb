package adapter

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/session"
	"github.com/mcp-metarouter/metarouter/supervisor"
)

// A switchboard knows which servers were turned on or off by hand: until their entry
// is edited, and no longer than the router runs. The file is not changed.
type switchboard struct {
	turned chan struct{} // holds a signal when a server was turned on or off

	mu     sync.Mutex // guards what follows
	byHand map[string]byHand
}

// A byHand is what was asked for by hand, of the entry as it was then.
type byHand struct {
	off   bool
	entry config.Server
}

// turn notes what is asked for of an entry as the file has it.
func (b *switchboard) turn(entry config.Server, off bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if entry.Disabled == off {
		delete(b.byHand, entry.Name)
	} else {
		b.byHand[entry.Name] = byHand{off, entry}
	}
	select {
	case b.turned <- struct{}{}:
	default:
	}
}

// apply returns c, as the file has it, with what was asked for by hand. Wishes about
// entries that were edited since are forgotten.
func (b *switchboard) apply(c config.Config) config.Config {
	b.mu.Lock()
	defer b.mu.Unlock()
	kept := make(map[string]byHand)
	c.Servers = slices.Clone(c.Servers)
	for i, s := range c.Servers {
		if wish, ok := b.byHand[s.Name]; ok && wish.entry.Equal(s) {
			kept[s.Name] = wish
			c.Servers[i].Disabled, c.Servers[i].ByHand = wish.off, wish.off
		}
	}
	b.byHand = kept
	return c
}

// has reports whether the server was turned on or off by hand.
func (b *switchboard) has(server string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, ok := b.byHand[server]
	return ok
}

// isOff reports whether the server was turned off by hand.
func (b *switchboard) isOff(server string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.byHand[server].off
}

// Turn turns a server off, or on again, until its entry is edited or the router ends.
// The configuration's files stay as they are. It returns when the server is disabled,
// or is ready or waits for its first call; the error of one that can't be started is
// a [*supervisor.UnavailableError].
func (r *Router) Turn(ctx context.Context, server string, on bool) error {
	if s, ok := r.status(server); ok && (s.State == supervisor.Self || s.State == supervisor.Misconfigured) {
		return &supervisor.UnavailableError{Server: server, State: s.State, Reason: s.LastError}
	}
	file := r.file.Load()
	i := slices.IndexFunc(file.Servers, func(s config.Server) bool { return s.Name == server })
	if i < 0 {
		return fmt.Errorf("%w: %w", session.ErrNotSent, &supervisor.UnavailableError{Server: server})
	}
	r.switches.turn(file.Servers[i], !on)
	var last supervisor.Status
	r.until(ctx, func() bool {
		last, _ = r.status(server)
		switch last.State {
		case supervisor.Starting, supervisor.Stopping:
			return false
		case supervisor.Disabled:
			return !on
		}
		return on
	}, nil)
	switch last.State {
	case supervisor.Failed, supervisor.NeedsAuth, supervisor.Restarting:
		return &supervisor.UnavailableError{Server: server, State: last.State, Reason: last.LastError}
	}
	return context.Cause(ctx)
}

// status returns the server's.
func (r *Router) status(server string) (supervisor.Status, bool) {
	for _, s := range r.supervisor.Status() {
		if s.Name == server {
			return s, true
		}
	}
	return supervisor.Status{}, false
}
