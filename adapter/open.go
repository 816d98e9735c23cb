package adapter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/inprocess"
	"github.com/mcp-metarouter/metarouter/internal/process"
	"github.com/mcp-metarouter/metarouter/internal/program"
	"github.com/mcp-metarouter/metarouter/internal/reload"
	"github.com/mcp-metarouter/metarouter/internal/signal"
)

// Open starts a router of the servers in the files, of which a later one wins, and
// follows the files as they are edited. It runs inside the program until [Router.Close]
// is called or ctx ends; see [Embed] for a program that may end before.
//
// Open does not wait for the servers: with Options.DataDir their tools are known from the last time,
// and [Router.Settled] waits until all are. A call waits for its server.
//
// The files run programs, so they must be the user's own. Mistakes in the entries of single servers
// are logged, and [Router.Health] has them. It is an error if a file can't be read, or if a router
// has started this program as one of its servers.
//
// An entry with the command "metarouter" is one of the bundled servers, such as "builtin utilities".
// Their command line is Options.Bundled, which [Embed] sets, else the metarouter in the PATH. Without
// both the server is misconfigured.
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
	if os.Getenv(process.DepthVariable) != "" {
		return nil, errors.New("open a router: this process was itself started by a router as one of its servers, and would start itself without end")
	}
	o.Log = cmp.Or(o.Log, zap.NewNop())
	warn := func(c config.Config) {
		for _, p := range c.Problems {
			o.Log.Warn(p.Error())
		}
	}
	p := reload.Pipeline{
		Watch:  follow,
		Adjust: func(c config.Config, _ bool) config.Config { return ownEntries(c, o.Bundled) },
		Sent:   warn,
		Log:    o.Log,
	}
	warn(c)
	c = p.Adjust(c, false)
	r := New(c, o)
	ctx, end, err := r.life.begin(ctx)
	if err != nil {
		return nil, err
	}
	edits := make(chan config.Config)
	go func() { // Close waits for it
		g, ctx := errgroup.WithContext(ctx)
		g.Go(func() error { return run(ctx, r, edits) })
		g.Go(func() error { return p.Run(ctx, c, edits) })
		end(g.Wait())
	}()
	return r, nil
}

// ownEntries returns c with the commands of bundled servers, since config replaces "metarouter" by
// this program. bundled is Options.Bundled.
func ownEntries(c config.Config, bundled []string) config.Config {
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
		if len(bundled) > 0 {
			s.Command, s.Args = bundled[0], slices.Concat(bundled[1:], s.Args[1:])
		} else if path, err := program.Look("metarouter"); err == nil {
			s.Command = path
		} else {
			s.Misconfigured = `its command is "metarouter", which is not in the PATH of this program; install it, or begin the program's main with adapter.Embed`
		}
	}
	return c
}

// A life is the life of a value that runs once and may be closed at any time.
type life struct {
	mu     sync.Mutex         // guards the fields below, but for err
	cancel context.CancelFunc // nil until it begins
	done   chan struct{}      // closed when it has ended
	closed bool
	err    error // the reason of its end; set before done is closed
}

// begin begins it. The context ends with ctx or with close; then end must be called.
func (l *life) begin(ctx context.Context) (_ context.Context, end func(error), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
		return nil, nil, inprocess.ErrClosed
	case l.done != nil:
		return nil, nil, errors.New("the router runs already, or did")
	}
	ctx, l.cancel = context.WithCancel(ctx)
	l.done = make(chan struct{})
	return ctx, func(err error) { l.err = err; l.cancel(); close(l.done) }, nil
}

// close ends it, and waits for its end. If begun is false, it never began and never will.
func (l *life) close() (begun bool, err error) {
	l.mu.Lock()
	l.closed = true
	begun = l.done != nil
	l.mu.Unlock()
	if !begun {
		return false, nil
	}
	l.cancel()
	<-l.done
	return true, l.err
}

// ended reports whether it has ended, and the error.
func (l *life) ended() (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done != nil && signal.IsClosed(l.done) {
		return true, l.err
	}
	return l.closed, nil
}
