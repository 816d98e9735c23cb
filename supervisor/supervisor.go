package supervisor

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
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
	// DataDir is where servers' logs and eras are kept; "" keeps nothing.
	DataDir string

	// Guard is the command line of a process that runs [Guard] on its stdin: this
	// very binary with a word that makes it do so. Empty means that nothing
	// covers the router's sudden death.
	Guard []string

	// Version is what servers are told of the router's version.
	Version string

	// MaxStarting is how many servers may be starting at once; default 8. One
	// that takes its time makes room for the next.
	MaxStarting int
}

// A Supervisor keeps the servers of a configuration running.
type Supervisor struct {
	handler Handler
	options Options
	log     *zap.Logger
	eras    eraStore
	finder  finder
	reaper  reaper
	slots   chan struct{}
	spawned atomic.Int64 // processes so far
	running sync.WaitGroup
	applied chan struct{} // closed once the first configuration is applied
	ending  chan struct{} // closed when Run is to return

	// mu guards what follows. It is never held while something stops.
	mu      sync.Mutex
	order   []string // names in the order of the configuration
	servers map[string]*server
	changed chan struct{} // closed when any status changes
}

// New returns a Supervisor of no servers.
func New(h Handler, o Options, log *zap.Logger) *Supervisor {
	if o.MaxStarting <= 0 {
		o.MaxStarting = 8
	}
	var random [8]byte
	rand.Read(random[:])
	return &Supervisor{
		handler: h,
		options: o,
		log:     log.Named("supervisor"),
		eras:    eraStore(o.DataDir),
		reaper:  reaper{mark: hex.EncodeToString(random[:])},
		slots:   make(chan struct{}, o.MaxStarting),
		applied: make(chan struct{}),
		ending:  make(chan struct{}),
		servers: make(map[string]*server),
		changed: make(chan struct{}),
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
		s.remove = cancel
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
func (v *Supervisor) Session(ctx context.Context, name string) (session.Session, error) {
	s, err := v.lookup(ctx, name)
	if err != nil {
		return nil, err
	}
	return s.session(ctx)
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
	select {
	case v.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	var once sync.Once
	free := func() { once.Do(func() { <-v.slots }) }
	timer := time.AfterFunc(slotTime, free)
	return func() { timer.Stop(); free() }, nil
}

// isEnding reports whether Run is about to return.
func (v *Supervisor) isEnding() bool { return isClosed(v.ending) }
