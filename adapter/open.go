package adapter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"sync"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/supervisor"
)

// Open starts a router of the servers in the files, of which a later one wins, and
// follows the files as they are edited. It runs inside the program until [Router.Close]
// is called or ctx ends; see [Embed] for a program that may end before.
//
// Open does not wait for the servers: with Options.DataDir their tools are known from
// the last time, and [Router.Settled] waits until all are. A call waits for its server.
//
// The files run programs, so they must be the user's own. What is wrong with single
// servers is no error, but logged, and in [Router.Config] and [Router.Health]. It is an
// error if a file can't be read, or if a router has started this program as one of its
// servers.
//
// An entry whose command is "metarouter" means one of the bundled servers, such as
// "builtin utilities". The command line for them is Options.Bundled, which [Embed]
// sets; else it is the metarouter in the PATH; and without that the server is
// misconfigured, and Health says so.
func Open(ctx context.Context, o Options, paths ...string) (*Router, error) {
	if len(paths) == 0 {
		return nil, errors.New("open a router: no configuration file is named")
	}
	c, err := config.Load(paths...)
	if err != nil {
		return nil, fmt.Errorf("open a router: %w", err)
	}
	return start(ctx, c, o, true)
}

// Start is Open with a configuration that the program has made itself or loaded. No
// file is followed.
func Start(ctx context.Context, c config.Config, o Options) (*Router, error) {
	return start(ctx, c, o, false)
}

func start(ctx context.Context, c config.Config, o Options, follow bool) (*Router, error) {
	if os.Getenv(supervisor.DepthVariable) != "" {
		return nil, errors.New("open a router: this process was itself started by a router as one of its servers, and would start itself without end")
	}
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	r := New(o.own(c), o)
	ctx, end, err := r.life.begin(ctx)
	if err != nil {
		return nil, err
	}
	var read, edits chan config.Config
	if follow {
		read, edits = make(chan config.Config), make(chan config.Config)
	}
	say(c, o.Log)
	go func() { // Close waits for it
		g, ctx := errgroup.WithContext(ctx)
		g.Go(func() error { return r.run(ctx, edits) })
		if follow {
			g.Go(func() error { return config.Watch(ctx, c, read, func(error) {}, o.Log) })
			g.Go(func() error { return pass(ctx, read, edits, o) })
		}
		end(g.Wait())
	}()
	return r, nil
}

// pass passes edits on, as the router shall see them.
func pass(ctx context.Context, read <-chan config.Config, edits chan<- config.Config, o Options) error {
	for {
		select {
		case c := <-read:
			say(c, o.Log)
			select {
			case edits <- o.own(c):
			case <-ctx.Done():
				return nil
			}
		case <-ctx.Done():
			return nil
		}
	}
}

func say(c config.Config, log *zap.Logger) {
	for _, p := range c.Problems {
		log.Warn(p.Error())
	}
}

// own returns c with entries of bundled servers as they run in this program. The
// configuration takes the command "metarouter" for this very program, which it is not.
func (o Options) own(c config.Config) config.Config {
	self, err := os.Executable()
	if err != nil {
		return c
	}
	c.Servers = slices.Clone(c.Servers)
	for i := range c.Servers {
		s := &c.Servers[i]
		if s.Transport != config.Stdio || s.Command != self || len(s.Args) == 0 || s.Args[0] != "builtin" {
			continue
		}
		if len(o.Bundled) > 0 {
			s.Command, s.Args = o.Bundled[0], slices.Concat(o.Bundled[1:], s.Args[1:])
		} else if path, err := exec.LookPath("metarouter"); err == nil {
			s.Command = path
		} else {
			s.Misconfigured = `its command is "metarouter", which is not in the PATH of this program; install it, or begin the program's main with adapter.Embed`
		}
	}
	return c
}

// A life is that of what runs once, and is then closed by whoever likes.
type life struct {
	mu     sync.Mutex         // guards what follows
	cancel context.CancelFunc // nil until it begins
	done   chan struct{}      // closed when it has ended
	closed bool
	err    error // by which it ended
}

// begin begins it. The context ends with ctx or with close, and end must then be
// called.
func (l *life) begin(ctx context.Context) (_ context.Context, end func(error), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return nil, nil, errClosed
	case l.done != nil:
		return nil, nil, errors.New("the router runs already, or did")
	}
	ctx, l.cancel = context.WithCancel(ctx)
	l.done = make(chan struct{})
	return ctx, func(err error) {
		l.mu.Lock()
		l.err = err
		l.mu.Unlock()
		l.cancel()
		close(l.done)
	}, nil
}

// close ends it, and returns when it has ended. begun is false if it never began, and
// then never will.
func (l *life) close() (begun bool, err error) {
	l.mu.Lock()
	l.closed = true
	done, cancel := l.done, l.cancel
	l.mu.Unlock()
	if done == nil {
		return false, nil
	}
	cancel()
	<-done
	_, err = l.ended()
	return true, err
}

// ended reports whether it has ended, and by what error.
func (l *life) ended() (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.closed || l.done != nil && isClosed(l.done), l.err
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Close ends the router with all its servers, and returns when nothing of it is left.
// Its error is what ended the router before, if anything did.
func (r *Router) Close() error {
	if begun, err := r.life.close(); begun {
		return err
	}
	return r.registry.Close()
}

// Name returns Options.Name.
func (r *Router) Name() string { return r.options.Name }

// Health says how each server is. Those that the configuration disables are left out;
// one that is not started until it is called is up. It asks nobody, as servers are
// watched all the time.
func (r *Router) Health(context.Context) Health {
	var parts []Health
	for _, s := range r.Servers() {
		h := Health{Name: s.Name, State: Up, Reason: s.LastError, Tools: s.Tools}
		switch s.State {
		case supervisor.Ready, supervisor.Idle:
			h.Reason = ""
		case supervisor.Starting, supervisor.Restarting:
			h.State = Starting
		case supervisor.Disabled, supervisor.Self:
			continue
		default:
			h.State = Down
		}
		parts = append(parts, h)
	}
	h := whole(r.Name(), len(r.Tools()), parts)
	if ended, err := r.life.ended(); ended {
		h.State, h.Reason = Down, "it is closed"
		if err != nil {
			h.Reason = err.Error()
		}
	}
	return h
}
