package supervisor

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/session"
)

// A Handler is told of servers that come and go. Its methods may be called for
// different servers at the same time, and for one server one after the other.
type Handler interface {
	// Learn is shown each new session before anyone else may use it, and again
	// when the server says that its tools have changed. The server is ready when
	// Learn returns nil. It must change nothing once ctx has ended.
	Learn(ctx context.Context, entry config.Server, s session.Session) error

	// Known reports whether it is known what the server offers without starting
	// it; only then a lazy server is left unstarted.
	Known(entry config.Server) bool

	// Forget is told that the server is no longer wanted. It may come while a
	// Learn is under way, whose ctx has then ended.
	Forget(server string)
}

// Options are what a Supervisor needs beside its handler. The zero value works.
type Options struct {
	// DataDir is where servers' logs and traits are kept; "" keeps nothing.
	DataDir string

	// Guard is the command line of a process that runs [Guard] on its stdin: this
	// very binary with a word that makes it do so. Empty means that nothing
	// covers the router's sudden death.
	Guard []string

	// Reporter is the path of a program that calls [Report] where ReportVariable is
	// set: this very binary. With it npx only fetches servers, and does not stay
	// between them and the router. "" runs npx as entries have it.
	Reporter string

	// Version is what servers are told of the router's version.
	Version string

	// Sole says that the router has one client only, which is to be told to
	// [Supervisor.Attach]: all servers' requests are for it.
	Sole bool

	// Hear is told what servers say that belongs to no request. owner is the only
	// client that uses the session, nil if several may. It must not block.
	Hear func(server string, owner session.Client, m session.Message)

	// MaxStarting is how many servers may be starting at once; default 8. One
	// that takes its time makes room for the next.
	MaxStarting int
}

// A Supervisor keeps the servers of a configuration running.
type Supervisor struct {
	handler Handler
	options Options
	log     *zap.Logger
	traits  *traitStore
	finder  finder
	reaper  reaper
	slots   chan struct{}
	// fetching holds an item while a server's package is fetched.
	fetching chan struct{}
	spawned  atomic.Int64 // processes so far
	running  sync.WaitGroup
	sole     chan session.Client // holds the router's only client once that is attached
	applied  chan struct{}       // closed once the first configuration is applied
	ending   chan struct{}       // closed when Run is to return

	// mu guards what follows. It is never held while something stops.
	mu      sync.Mutex
	order   []string // names in the order of the configuration
	servers map[string]*server
	changed chan struct{} // closed when any status changes
	level   string        // of the log messages that servers are to send; "" if nobody said
}

// New returns a Supervisor of no servers.
func New(h Handler, o Options, log *zap.Logger) *Supervisor {
	if o.MaxStarting <= 0 {
		o.MaxStarting = 8
	}
	if o.Hear == nil {
		o.Hear = func(string, session.Client, session.Message) {}
	}
	var random [8]byte
	rand.Read(random[:])
	return &Supervisor{
		handler:  h,
		options:  o,
		log:      log.Named("supervisor"),
		traits:   newTraitStore(o.DataDir),
		reaper:   reaper{mark: hex.EncodeToString(random[:])},
		slots:    make(chan struct{}, o.MaxStarting),
		fetching: make(chan struct{}, 1),
		sole:     make(chan session.Client, 1),
		applied:  make(chan struct{}),
		ending:   make(chan struct{}),
		servers:  make(map[string]*server),
		changed:  make(chan struct{}),
	}
}

// errRemoved is the cause by which a server's context ends when its entry has
// gone from the configuration.
var errRemoved = errors.New("removed from the configuration")

// Run makes what runs equal to the latest configuration until ctx ends. When it
// returns, no process is left. It may be called once.
func (v *Supervisor) Run(ctx context.Context, configs <-chan config.Config) error {
	guard, err := startGuard(v.options.Guard, v.reaper.mark, v.log)
	if err != nil {
		close(v.ending)
		return err
	}
	defer guard.close()
	v.reaper.guard = guard
	for {
		select {
		case c := <-configs:
			v.apply(ctx, c)
		case <-ctx.Done():
			close(v.ending)
			v.running.Wait()
			if v.spawned.Load() > 0 {
				killMarked(v.reaper.mark + ".")
			}
			return nil
		}
	}
}

// apply starts what is new, ends what is gone and tells the rest what changed.
func (v *Supervisor) apply(ctx context.Context, c config.Config) {
	wanted := make(map[string]config.Server)
	var order []string
	for _, entry := range c.Servers {
		wanted[entry.Name] = entry
		order = append(order, entry.Name)
	}
	var gone []*server
	v.mu.Lock()
	for name, s := range v.servers {
		if _, ok := wanted[name]; !ok {
			gone = append(gone, s)
			delete(v.servers, name)
		}
	}
	for name, entry := range wanted {
		if s, ok := v.servers[name]; ok {
			s.edit(entry)
			continue
		}
		s := newServer(v, entry)
		own, cancel := context.WithCancelCause(ctx)
		s.remove, s.life = cancel, own
		s.generation, s.endGeneration = context.WithCancelCause(own)
		v.servers[name] = s
		v.running.Go(func() {
			s.run(own)
			v.freed()
		})
	}
	v.order = order
	v.mu.Unlock()
	for _, s := range gone {
		s.remove(errRemoved) // first, so that no Learn under way undoes Forget
		v.handler.Forget(s.name)
	}
	select {
	case <-v.applied:
	default:
		close(v.applied)
	}
	v.announce()
}

// freed has failed servers tried again when one is gone: it may have held what
// they want for themselves.
func (v *Supervisor) freed() {
	if v.isEnding() {
		return
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, s := range v.servers {
		s.wakeIfFailed()
	}
}

// Session returns the server's session. It waits while the server starts, until
// ctx ends, and has a failed one tried again if that was not done lately. Its
// error is an [*UnavailableError].
//
// A legacy server that has asked its client for something has a session of its
// own for each client that may be asked, until [Supervisor.Release], and one that
// speaks both eras has one for legacy clients. from is the client, nil if there is
// none. All others share one.
func (v *Supervisor) Session(ctx context.Context, name string, from session.Client) (session.Session, error) {
	s, err := v.lookup(ctx, name)
	if err != nil {
		return nil, err
	}
	in, err := s.session(ctx)
	if err != nil {
		return nil, err
	}
	return s.suit(ctx, in, from)
}

// Attach says who the router's only client is, if it has but one.
func (v *Supervisor) Attach(c session.Client) { v.sole <- c }

// only returns the router's only client, nil if it may have several. It waits for
// that client until ctx ends.
func (v *Supervisor) only(ctx context.Context) session.Client {
	if !v.options.Sole {
		return nil
	}
	select {
	case c := <-v.sole:
		v.sole <- c
		return c
	case <-ctx.Done():
		return nil
	}
}

// Tell sends a notification to all servers whose session is the client's alone.
// It does not wait for them.
func (v *Supervisor) Tell(home session.Client, method string, params json.RawMessage) {
	for _, s := range v.all() {
		for _, in := range s.ownedBy(home) {
			in.say(method, params)
		}
	}
}

// SetLevel has legacy servers send log messages from the level on, those too that
// start later. It waits for them, but not for long.
func (v *Supervisor) SetLevel(ctx context.Context, level string) {
	v.mu.Lock()
	v.level = level
	v.mu.Unlock()
	var setting sync.WaitGroup
	for _, s := range v.all() {
		for _, in := range s.running() {
			setting.Go(func() { in.setLevel(ctx, level) })
		}
	}
	setting.Wait()
}

// Release ends the sessions that were the client's alone.
func (v *Supervisor) Release(home session.Client) {
	for _, s := range v.all() {
		s.release(home)
	}
}

func (v *Supervisor) all() []*server {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Collect(maps.Values(v.servers))
}

func (v *Supervisor) lookup(ctx context.Context, name string) (*server, error) {
	select {
	case <-v.applied:
	case <-v.ending:
		return nil, &UnavailableError{Server: name, State: Stopped}
	case <-ctx.Done():
		return nil, &UnavailableError{Server: name, State: Starting, Reason: "the router is starting"}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	s, ok := v.servers[name]
	if !ok {
		return nil, &UnavailableError{Server: name}
	}
	return s, nil
}

// Restart stops the server and starts it again, whatever its state, and waits
// until it is ready, has failed or ctx ends.
func (v *Supervisor) Restart(ctx context.Context, name string) error {
	s, err := v.lookup(ctx, name)
	if err != nil {
		return err
	}
	return s.restartNow(ctx)
}

// Status returns the state of every server, in the order of the configuration.
func (v *Supervisor) Status() []Status {
	v.mu.Lock()
	servers := make([]*server, 0, len(v.order))
	for _, name := range v.order {
		if s, ok := v.servers[name]; ok {
			servers = append(servers, s)
		}
	}
	v.mu.Unlock()
	all := make([]Status, len(servers))
	for i, s := range servers {
		all[i] = s.report()
	}
	return all
}

// Changed returns a channel that is closed at the next change of any status.
func (v *Supervisor) Changed() <-chan struct{} {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.changed
}

func (v *Supervisor) announce() {
	v.mu.Lock()
	defer v.mu.Unlock()
	close(v.changed)
	v.changed = make(chan struct{})
}

// slotTime is how long a starting server keeps others from starting.
const slotTime = 3 * time.Second

// slot waits for one of the places for starting servers. release gives it back,
// as does the passing of slotTime, so that slow servers delay nobody for long.
func (v *Supervisor) slot(ctx context.Context) (release func(), err error) {
	return take(ctx, v.slots, slotTime)
}

// take waits for one of the places, which release or the passing of limit gives
// back.
func take(ctx context.Context, places chan struct{}, limit time.Duration) (release func(), err error) {
	select {
	case places <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	var once sync.Once
	free := func() { once.Do(func() { <-places }) }
	timer := time.AfterFunc(limit, free)
	return func() { timer.Stop(); free() }, nil
}

// isEnding reports whether Run is about to return.
func (v *Supervisor) isEnding() bool { return isClosed(v.ending) }
