package supervisor

import (
	"context"
	"errors"
	"maps"
	"net"
	"slices"
	"sync"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/login"
	"github.com/mcp-metarouter/metarouter/internal/process"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/vault"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/launch"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/resolve"
)

// A Handler is notified of servers that come and go. Its methods may be called for
// different servers at the same time, and for one server one after the other.
type Handler interface {
	// Learn lists the server's offer. It gets each new session before the
	// session is used, and the session again when the server says that its lists
	// have changed. The server is ready when Learn returns nil. Learn must change
	// nothing once ctx has ended.
	Learn(ctx context.Context, entry config.Server, s session.Session) error

	// Known reports whether the offer of the server is known without starting it. A
	// lazy server is started at once unless it is.
	Known(entry config.Server) bool

	// Forget is called when the server is no longer wanted. It may be called during
	// a Learn; its ctx has then ended.
	Forget(server string)
}

// Options configure a Supervisor. The zero value
// works.
type Options struct {
	// DataDir is where servers' logs and cached probe results are kept; "" keeps
	// nothing.
	DataDir string

	// Guard is the command line of a process that runs [process.RunGuard] on its stdin: this
	// binary with the arguments that make it do so. It must call [process.Open] first.
	// Empty means no process guard: servers may outlive a router that is killed.
	Guard []string

	// Reporter is the path of a program that calls [process.Report] if process.ReportVariable is set:
	// this binary. With it npx only fetches servers, and does not stay between them
	// and the router. "" runs npx as entries have it.
	Reporter string

	// Version is the router's version, which servers are sent.
	Version string

	// Logins give remote servers their tokens; may be nil. The caller closes it.
	Logins *login.Logins

	// Legacy reports whether the router has clients, all of the legacy era; nil if that is not
	// known. A server of both eras is then started in that era.
	Legacy func() bool

	// OnSecrets is called with values to which references of entries were resolved, before
	// they are used, so that they can be hidden elsewhere. May be nil.
	OnSecrets func(values []string)

	// OnToken is called with tokens of logins before they are sent, and now and then again
	// while they are in use, so that they can be hidden elsewhere. May be nil.
	OnToken func(token string)

	// Play plays commands in this process, for tests; see [process.Starter]. May be nil.
	Play process.Player

	// Inside serves an entry of the transport [config.Scripts] over conn until one of the ends is closed.
	Inside func(entry config.Server, conn net.Conn)

	// OnMessage is called with messages of servers that belong to no request. owner
	// is the only client that uses the session, nil if several may. It must not
	// block.
	OnMessage func(server string, owner session.Client, m session.Message)
}

// A Supervisor keeps the servers of a configuration running.
type Supervisor struct {
	*common
	starter *process.Starter
	running sync.WaitGroup // the lives of servers
	applied chan struct{}  // closed once the first configuration is applied

	clients
}

// servers are the servers of the latest configuration.
type servers struct {
	mu     sync.Mutex // guards the fields below; never held while a server stops
	order  []*server  // in the order of the configuration, replaced with it; nil before the first one
	byName map[string]*server
}

// all returns the servers in any order.
func (v *servers) all() []*server {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Collect(maps.Values(v.byName))
}

// get returns the server of the name, nil if it does not exist.
func (v *servers) get(name string) *server {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.byName[name]
}

// New returns a Supervisor without servers.
func New(h Handler, o Options, log *zap.Logger) *Supervisor {
	if o.OnMessage == nil {
		o.OnMessage = func(string, session.Client, session.Message) {}
	}
	log = log.Named("supervisor")
	ending := make(chan struct{})
	starter := process.NewStarter(o.Guard, ending, log)
	starter.Play = o.Play
	c := &common{
		handler:  h,
		options:  o,
		log:      log,
		launcher: launch.New(starter, o.Reporter, o.DataDir),
		resolver: resolve.New(ownSecrets(), starter.Run),
		sources:  sources(o.Logins),
		turns:    newTurns(),
		ending:   ending,
	}
	return &Supervisor{common: c, starter: starter, applied: make(chan struct{}), clients: clients{c, &servers{byName: make(map[string]*server)}}}
}

// ownSecrets returns the user's store of secrets, nil if the place of it is not known.
func ownSecrets() resolve.Store {
	own, err := vault.Own()
	if err != nil {
		return nil
	}
	return own
}

// errRemoved is the cause by which a server's context ends when its entry has
// gone from the configuration.
var errRemoved = errors.New("removed from the configuration")

// Run makes the running servers equal to the latest configuration until ctx ends.
// When it returns, no process is left. It may be called once.
func (v *Supervisor) Run(ctx context.Context, configs <-chan config.Config) error {
	if err := v.starter.Open(); err != nil {
		close(v.ending)
		return err
	}
	defer v.starter.Close()
	for {
		select {
		case c := <-configs:
			v.apply(ctx, c)
		case <-ctx.Done():
			close(v.ending)
			v.running.Wait()
			return nil
		}
	}
}

// apply starts the servers that are new, ends those that are gone, and gives the
// others their entries. It does not wait for any of them.
func (v *Supervisor) apply(ctx context.Context, c config.Config) {
	var starts, known []config.Server
	for _, entry := range c.Servers {
		if v.handler.Known(entry) {
			known = append(known, entry)
		} else {
			starts = append(starts, entry) // those that were never listed start first
		}
	}
	v.servers.mu.Lock()
	gone := maps.Clone(v.servers.byName)
	for _, entry := range append(starts, known...) {
		delete(gone, entry.Name)
		if s, ok := v.servers.byName[entry.Name]; ok {
			s.control.edit(entry, func() { s.public.edited(entry) }) // ends a start or listing under way
			continue
		}
		life, remove := context.WithCancelCause(ctx)
		s := newServer(life, remove, v.common, entry)
		v.servers.byName[entry.Name] = s
		v.running.Go(func() { s.run(life) })
	}
	v.servers.order = make([]*server, len(c.Servers))
	for i, entry := range c.Servers {
		v.servers.order[i] = v.servers.byName[entry.Name]
	}
	maps.DeleteFunc(v.servers.byName, func(name string, _ *server) bool { return gone[name] != nil })
	v.servers.mu.Unlock()
	for _, s := range gone {
		s.remove(errRemoved) // first, so that no Learn under way undoes Forget
		v.handler.Forget(s.name)
	}
	if !signal.IsClosed(v.applied) {
		close(v.applied)
	}
	v.changed.Notify()
}

// Session returns a session with the server for the client from, nil for the router
// itself. It waits until ctx ends while the server starts, and starts a failed server
// again unless that was tried lately. Its error is an [*status.UnavailableError].
//
// All clients share one session, with three exceptions. A legacy server that has asked
// clients for roots, sampling or elicitation, in this run or an earlier one, has a session
// for each client that can answer that, until [Supervisor.Release]; a client without a session of
// its own then has one for each request. A process that speaks both eras has one more session, for
// clients of the era that the shared session does not have. With an entry that is Personal, no session is shared: each
// principal has its own.
func (v *Supervisor) Session(ctx context.Context, name string, from session.Client) (session.Session, error) {
	s, err := v.lookup(ctx, name)
	if err != nil {
		return nil, err
	}
	for {
		in, err := sessionWith(ctx, s, from)
		if !isRenewed(err) {
			return in, err
		}
	}
}

// sessionWith is one attempt of [Supervisor.Session].
func sessionWith(ctx context.Context, s *server, from session.Client) (session.Session, error) {
	generation := s.pool.now() // before the look at the entry, since an edit after it ends this one
	if entry := s.control.wanted(); entry.Personal() && entry.Startable() {
		return personal(ctx, generation, s.pool, entry, from)
	}
	in, err := s.public.await(ctx, false, nil)
	if err != nil {
		return nil, err
	}
	if generation = s.pool.now(); !in.Usable() { // else an edit after that ends the generation
		return nil, errRestarted
	}
	return s.pool.session(ctx, generation, in, from)
}

// Await waits until ctx ends for a server whose entry is Personal: until its tools are listed. Its error is as Session's.
func (v *Supervisor) Await(ctx context.Context, name string) error {
	s, err := v.lookup(ctx, name)
	if err == nil {
		_, err = s.public.await(ctx, true, nil)
	}
	return err
}

// Wake starts the server if it is idle, or if it failed and was not tried lately. It does
// not wait for it.
func (v *Supervisor) Wake(name string) {
	if s := v.servers.get(name); s != nil {
		s.public.wake()
	}
}

func (v *Supervisor) lookup(ctx context.Context, name string) (*server, error) {
	if !signal.IsClosed(v.applied) {
		select {
		case <-v.applied:
		case <-v.ending:
			return nil, &status.UnavailableError{Server: name, State: status.Stopped}
		case <-ctx.Done():
			return nil, &status.UnavailableError{Server: name, State: status.Starting, Reason: "the router is starting"}
		}
	}
	if s := v.servers.get(name); s != nil {
		return s, nil
	}
	return nil, &status.UnavailableError{Server: name}
}

// Restart stops the server and starts it again, whatever its state, and waits
// until it is ready, has failed or ctx ends.
func (v *Supervisor) Restart(ctx context.Context, name string) error {
	s, err := v.lookup(ctx, name)
	if err != nil {
		return err
	}
	s.opener.secrets.Forget(s.control.wanted())
	s.pool.renew(errRestarted)
	before := s.public.starts.Load()
	state, reason := s.control.askRestart()
	if state != "" {
		return &status.UnavailableError{Server: name, State: state, Reason: reason}
	}
	_, err = s.public.await(ctx, true, &before)
	return err
}

// State returns the state of the server, "" if there is no such server.
func (v *Supervisor) State(name string) status.State {
	if s := v.servers.get(name); s != nil {
		_, state := s.public.now()
		return state
	}
	return ""
}

// Status returns the status of every server, in the order of the configuration; nil before
// there is one.
func (v *Supervisor) Status() []status.Status {
	v.servers.mu.Lock()
	servers := v.servers.order
	v.servers.mu.Unlock()
	if servers == nil {
		return nil
	}
	all := make([]status.Status, len(servers))
	for i, s := range servers {
		all[i] = s.status()
	}
	return all
}

// Changed returns a channel that is closed at the next change of any status.
func (v *Supervisor) Changed() <-chan struct{} { return v.changed.Next() }
