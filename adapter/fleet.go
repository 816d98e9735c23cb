package adapter

import (
	"context"
	"fmt"
	"slices"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/supervisor"
)

// AwaitNodes waits until the servers of other nodes are known, for at most 8 s after the router joined
// its cluster. The error says why servers may be missing.
func (a administration) AwaitNodes(ctx context.Context) error { return a.router.members.settled(ctx) }

// Restart stops a server and starts it again; see [supervisor.Supervisor.Restart]. A server
// that was turned off by hand is turned on.
func (a administration) Restart(ctx context.Context, server string) error {
	if err := a.router.members.elsewhere(server); err != nil {
		return err
	}
	if a.router.current.load().byHand[server].off {
		return a.Turn(ctx, server, true)
	}
	return a.router.supervisor.Restart(ctx, server)
}

// Turn turns a server off, or on again, until its entry is edited or the router ends. The
// configuration's files stay as they are. Turn returns when the server is disabled, or is
// ready or waits for its first call. The error of a server that can't be started is a
// [*status.UnavailableError].
func (a administration) Turn(ctx context.Context, server string, on bool) error {
	if err := a.router.members.elsewhere(server); err != nil {
		return err
	}
	if s, ok := statusOf(a.router.supervisor, server); ok && (s.State == status.Self || s.State == status.Misconfigured) {
		return &status.UnavailableError{Server: server, State: s.State, Reason: s.LastError}
	}
	entries := a.router.current.load().file.Servers
	i := slices.IndexFunc(entries, func(s config.Server) bool { return s.Name == server })
	if i < 0 {
		return fmt.Errorf("%w: %w", ErrNotSent, &status.UnavailableError{Server: server})
	}
	a.router.current.turn(entries[i], !on)
	var last status.Status
	until(ctx, a.router.supervisor, func() bool {
		last, _ = statusOf(a.router.supervisor, server)
		if last.State == status.Starting || last.State == status.Stopping {
			return false
		}
		return last.State == status.Stopped || (last.State == status.Disabled) != on // stopped with the router
	}, nil)
	switch last.State {
	case status.Failed, status.NeedsAuth, status.Restarting, status.Stopped:
		return &status.UnavailableError{Server: server, State: last.State, Reason: last.LastError}
	}
	return context.Cause(ctx)
}

// Try starts the named servers that are not running, or all servers without names. It returns when
// the first start of each has succeeded or failed, or when ctx ends. Servers of other nodes are
// waited for a short time.
func (a administration) Try(ctx context.Context, names ...string) {
	if len(names) == 0 {
		for _, s := range a.router.current.load().config.Servers {
			names = append(names, s.Name)
		}
	}
	until(ctx, a.router.supervisor, func() bool { return a.router.areNot(names, status.Starting, status.Idle) }, names)
	a.router.members.settled(ctx)
}

// Started returns when no server is starting, or when ctx ends.
func (a administration) Started(ctx context.Context) {
	until(ctx, a.router.supervisor, func() bool { return a.router.areNot(nil, status.Starting) }, nil)
}

// areNot reports whether the named servers, or all servers if names is nil, are in other states.
func (r *Router) areNot(names []string, states ...status.State) bool {
	servers := r.supervisor.Status()
	return len(servers) == len(r.current.load().config.Servers) && !slices.ContainsFunc(servers, func(s status.Status) bool {
		return (names == nil || slices.Contains(names, s.Name)) && slices.Contains(states, s.State)
	})
}

// until starts the servers of wake, again if they become idle. It returns when done is true after a
// change of any server, or when ctx ends. A server that has failed is started once: two that take
// long to fail would never be done otherwise.
func until(ctx context.Context, servers *supervisor.Supervisor, done func() bool, wake []string) {
	for first := true; ; first = false {
		changed := servers.Changed()
		for _, s := range servers.Status() {
			if slices.Contains(wake, s.Name) && (first || s.State == status.Idle) {
				servers.Wake(s.Name)
			}
		}
		if done() {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// statusOf returns the state of one server.
func statusOf(s *supervisor.Supervisor, server string) (status.Status, bool) {
	all := s.Status()
	i := slices.IndexFunc(all, func(s status.Status) bool { return s.Name == server })
	if i < 0 {
		return status.Status{}, false
	}
	return all[i], true
}
