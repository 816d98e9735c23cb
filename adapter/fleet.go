package adapter

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/supervisor"
)

// A fleet is a router's servers: their states, and how to start, stop and reach them.
type fleet struct {
	current    *holder
	supervisor *supervisor.Supervisor
	members    *membership
	sessions   sessions
	executor   *execute.Executor
	registry   *registry.Registry
	sole       bool // see Options.Sole
	listener   *listening
}

// A ServerInfo is the state of one server.
type ServerInfo struct {
	Status
	Calls   int  // that run
	Waiting int  // calls that wait for one of these to end
	Tools   int  // known tools, whether or not the server runs
	ByHand  bool // turned on or off by hand; see [Parts.Turn]
}

// Servers returns the state of each server, in the order of the configuration, and then of those of
// other nodes.
func (f *fleet) Servers() []ServerInfo {
	now := f.current.load()
	snapshot := f.registry.Snapshot()
	servers := f.supervisor.Status()
	if servers == nil { // the router does not run yet
		for _, s := range now.config.Servers {
			st := Status{Name: s.Name, State: status.Starting, Transport: string(s.Transport)}
			switch {
			case s.Disabled:
				st.State = status.Disabled
			case s.Misconfigured != "":
				st.State, st.LastError = status.Misconfigured, s.Misconfigured
			}
			servers = append(servers, st)
		}
	}
	servers = append(servers, f.members.statuses()...)
	all := make([]ServerInfo, len(servers))
	for i, st := range servers {
		_, byHand := now.byHand[st.Name]
		st.Repairs = f.executor.Repairs(st.Name)
		calls, waiting := f.executor.Load(st.Name)
		all[i] = ServerInfo{st, calls, waiting, len(snapshot.Server(st.Name)), byHand}
	}
	return all
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

// Await returns when the server can be called, after at most [execute.StartWait]. Its
// error wraps [ErrNotSent] and says why the server can't be called.
func (f *fleet) Await(ctx context.Context, server string) error {
	ctx, cancel := context.WithTimeout(ctx, execute.StartWait)
	defer cancel()
	if !f.current.load().has(server) && f.members.with(server) == nil && f.members.replica(server) == "" {
		f.members.settled(ctx)
	}
	_, err := f.sessions.Session(ctx, server, nil)
	return err
}

// AwaitNodes returns when the servers of other nodes are known, if the router is in a cluster. It
// waits for at most 8 s after the router joined. The error says why servers may be missing.
func (f *fleet) AwaitNodes(ctx context.Context) error { return f.members.settled(ctx) }

// Restart stops a server and starts it again; see [supervisor.Supervisor.Restart]. A server
// that was turned off by hand is turned on.
func (f *fleet) Restart(ctx context.Context, server string) error {
	if err := f.members.elsewhere(server); err != nil {
		return err
	}
	if f.current.load().byHand[server].off {
		return f.Turn(ctx, server, true)
	}
	return f.supervisor.Restart(ctx, server)
}

// Turn turns a server off, or on again, until its entry is edited or the router ends. The
// configuration's files stay as they are. Turn returns when the server is disabled, or is
// ready or waits for its first call. The error of a server that can't be started is a
// [*status.UnavailableError].
func (f *fleet) Turn(ctx context.Context, server string, on bool) error {
	if err := f.members.elsewhere(server); err != nil {
		return err
	}
	if s, ok := statusOf(f.supervisor, server); ok && (s.State == status.Self || s.State == status.Misconfigured) {
		return &status.UnavailableError{Server: server, State: s.State, Reason: s.LastError}
	}
	entries := f.current.load().file.Servers
	i := slices.IndexFunc(entries, func(s config.Server) bool { return s.Name == server })
	if i < 0 {
		return fmt.Errorf("%w: %w", ErrNotSent, &status.UnavailableError{Server: server})
	}
	f.current.turn(entries[i], !on)
	var last status.Status
	until(ctx, f.supervisor, func() bool {
		last, _ = statusOf(f.supervisor, server)
		switch last.State {
		case status.Starting, status.Stopping:
			return false
		case status.Disabled:
			return !on
		}
		return on
	}, nil)
	switch last.State {
	case status.Failed, status.NeedsAuth, status.Restarting:
		return &status.UnavailableError{Server: server, State: last.State, Reason: last.LastError}
	}
	return context.Cause(ctx)
}

// Try starts the named servers that are not running, or all servers if none is named. It
// returns when the first start of each has succeeded or failed, or when ctx ends. Servers of other
// nodes are waited for a short time.
func (f *fleet) Try(ctx context.Context, names ...string) {
	if len(names) == 0 {
		for _, s := range f.current.load().config.Servers {
			names = append(names, s.Name)
		}
	}
	until(ctx, f.supervisor, func() bool { return f.none(names, status.Starting, status.Idle) }, names)
	f.members.settled(ctx)
}

// Started returns when no server is starting, or when ctx ends.
func (f *fleet) Started(ctx context.Context) {
	until(ctx, f.supervisor, func() bool { return f.none(nil, status.Starting) }, nil)
}

// none reports whether none of the named servers, of all servers if names is nil, is in one
// of the states.
func (f *fleet) none(names []string, states ...status.State) bool {
	servers := f.supervisor.Status()
	return len(servers) == len(f.current.load().config.Servers) && !slices.ContainsFunc(servers, func(s status.Status) bool {
		return (names == nil || slices.Contains(names, s.Name)) && slices.Contains(states, s.State)
	})
}

// until starts the servers of wake, also those that become idle: all alike, since no call waits for one of them. It
// returns when done is true after a change of any server, or when ctx ends. A server that has
// failed is started once: two that take long to fail would never be done otherwise.
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

// Subscribe has a server report when a resource changes, to [Parts.Listen]. done is closed
// when the server's session has ended, and the subscription with it; cancel ends the
// subscription before. Errors are those of [execute.Executor.Relay].
func (f *fleet) Subscribe(ctx context.Context, server, uri string, from Client) (done <-chan struct{}, cancel func(), err error) {
	waiting, stop := context.WithTimeout(ctx, execute.StartWait)
	defer stop()
	s, err := f.sessions.Session(waiting, server, from)
	if err != nil {
		return nil, nil, &Error{Code: session.CodeInternal, Message: err.Error()}
	}
	if cancel, err = s.Subscribe(waiting, uri); err != nil {
		return nil, nil, err
	}
	return s.Done(), cancel, nil
}

// Listen has hear called with each message of a server that belongs to no request. It is
// called on the goroutine that reads from the server, and must not block. owner is the
// only client that uses the server's session, or nil if several may. Several may listen at a
// time: each gets all messages, also those for an owner that is another one's client.
func (f *fleet) Listen(hear func(server string, owner Client, m Message)) (stop func()) {
	return f.listener.add(hear)
}

// A listening passes on what servers say that belongs to no request. The zero value has no
// listeners.
type listening struct {
	mu  sync.Mutex // one goroutine at a time replaces all
	all atomic.Pointer[[]*listener]
}

type listener struct {
	hear func(server string, owner Client, m Message)
}

// add adds a listener, which stop removes.
func (l *listening) add(hear func(server string, owner Client, m Message)) (stop func()) {
	one := &listener{hear}
	l.edit(func(all []*listener) []*listener { return append(all, one) })
	return func() {
		l.edit(func(all []*listener) []*listener {
			return slices.DeleteFunc(all, func(other *listener) bool { return other == one })
		})
	}
}

// edit replaces the list by an edited copy.
func (l *listening) edit(edit func([]*listener) []*listener) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []*listener
	if old := l.all.Load(); old != nil {
		all = slices.Clone(*old)
	}
	all = edit(all)
	l.all.Store(&all)
}

func (l *listening) hear(server string, owner Client, m Message) {
	if all := l.all.Load(); all != nil {
		for _, one := range *all {
			one.hear(server, owner, m)
		}
	}
}

// Attach sets the only client of a router whose [Options.Sole] is set.
func (f *fleet) Attach(home Client) {
	if f.sole {
		f.supervisor.Attach(home)
	}
}

// Release ends what servers run for a client that has left.
func (f *fleet) Release(home Client) {
	f.supervisor.Release(home)
	f.executor.ForgetClient(home)
	if node := f.members.node(); node != nil {
		node.Release(home)
	}
}

// Tell sends a notification to each server whose session is the client's alone.
func (f *fleet) Tell(home Client, method string, params json.RawMessage) {
	f.supervisor.Notify(home, method, params)
	if node := f.members.node(); node != nil {
		node.Notify(home, method, params)
	}
}

// SetLevel has servers send log messages from the level on, such as "info". It waits for
// the servers, but only for a short time.
func (f *fleet) SetLevel(ctx context.Context, level string) {
	if node := f.members.node(); node != nil {
		node.SetLevel(ctx, level)
	}
	f.supervisor.SetLevel(ctx, level)
}
