// Package service runs a router that serves clients: the router itself, its MCP server, the
// edits of its configuration, its observers and its listeners.
//
// A [Service] does not know how clients reach it: each [Listener] serves clients of one
// kind, such as the client on stdin and stdout. A command that needs a router for a moment
// uses [RunRouter] alone.
package service

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/progress"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/server"
)

// headStart is about as long as a client's first requests take.
const headStart = 40 * time.Millisecond

// ErrClientLeft is returned by a listener whose client has left, and the router ends.
var ErrClientLeft = errors.New("the client has left")

// A Service is a router that serves clients.
type Service struct {
	Config   config.Config
	Override func(*config.Router)     // sets what the command line asks for, in each configuration that is read
	Trusted  func(config.Config) bool // whether an edited configuration may be used
	Watch    bool                     // read the configuration again when its files change
	Hangup   chan os.Signal           // a value makes the router read the configuration again

	Options   adapter.Options // of the router; the Service sets the observers
	Observers *Observers      // which the caller closes
	Metrics   bool            // serve metrics
	Screen    io.Writer       // shows how the servers start; nil for no terminal
	Version   string
	Log       *zap.Logger

	Pages     *http.ServeMux // routes for people and programs, in addition to MCP
	Listeners []Listener
}

// A Listener serves clients of one kind. It returns when it has ended, with
// ErrClientLeft if the router is to end with it.
type Listener func(ctx context.Context, r *adapter.Parts, s *server.Server) error

// Run runs the router and its listeners until ctx ends or a listener fails. The router
// goes on until the listeners have answered their clients.
func (s *Service) Run(ctx context.Context) error {
	c := s.Config
	s.Override(&c.Router)
	observers := s.Observers
	observers.addPages(c, s.Version, s.Metrics, s.Log)
	options := s.Options
	options.HeadStart, options.Watched = headStart, s.Screen != nil
	observers.ObserveRouter(&options)
	signal.Notify(s.Hangup, syscall.SIGHUP)
	defer signal.Stop(s.Hangup)
	edits := make(chan config.Config)
	pipeline := s.pipeline(observers)
	// The router must outlive the signal that ends ctx: the server answers the requests in
	// flight first. So the signal ends what runs in the router, and then the router ends.
	signalled := ctx
	err := RunRouter(context.WithoutCancel(ctx), adapter.New(c, options), edits, func(ctx context.Context, r *adapter.Parts) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(signalled, cancel)()
		options := server.Options{Live: adapter.Follow(r, serverOptions), Version: s.Version, Log: s.Log}
		observers.observeServer(&options)
		m := server.New(r, options)
		observers.register(s.Pages, r, m, s.Log)
		g, ctx := errgroup.WithContext(ctx)
		g.Go(func() error { return pipeline.Run(ctx, c, edits) })
		g.Go(func() error { return m.Run(ctx) })
		g.Go(func() error { returnMemory(ctx, measure, debug.FreeOSMemory, limitMemory); return nil })
		if s.Screen != nil {
			g.Go(func() error { progress.ShowStart(ctx, s.Screen, r); return nil })
		}
		for _, listen := range s.Listeners {
			g.Go(func() error { return listen(ctx, r, m) })
		}
		return g.Wait()
	})
	if errors.Is(err, ErrClientLeft) {
		return nil
	}
	return err
}

// pipeline returns the pipeline by which edits of the configuration reach the router.
func (s *Service) pipeline(o *Observers) config.Pipeline {
	return config.Pipeline{
		Watch:  s.Watch,
		Reload: s.Hangup,
		Adjust: func(c config.Config) config.Config {
			o.learn(c)
			s.Override(&c.Router)
			return c
		},
		Trusted: s.Trusted,
		Judged:  o.dashboard.Rejected,
		Sent:    o.edited,
		Log:     s.Log,
	}
}

// serverOptions returns the options of an MCP server that an edit of the configuration may
// change.
func serverOptions(c config.Config) *server.Options {
	return &server.Options{
		Mode: c.Router.Mode, Names: c.Router.Names, Separator: c.Router.Separator,
		ToolBudget: c.Router.ToolBudget, ListWait: c.Router.ListWait, Pinned: c.Router.Pinned,
		RouteThreshold: c.Router.RouteThreshold, FillArguments: c.Router.FillArguments,
		Samples:       c.Router.Assist != nil && c.Router.Assist.Sampling,
		LimitsResults: limitsResults(c), Classifies: c.Router.Classification != nil,
	}
}

// limitsResults reports whether the results of any server may be cut.
func limitsResults(c config.Config) bool {
	return slices.ContainsFunc(c.Servers, func(s config.Server) bool { return s.MaxResultTokens > 0 || len(s.ToolResultTokens) > 0 })
}

// RunRouter runs do while the router runs, and returns when both have ended.
func RunRouter(ctx context.Context, r *adapter.Router, edits <-chan config.Config, do func(context.Context, *adapter.Parts) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stopped := make(chan error, 1)
	go func() {
		err := r.Run(ctx, edits)
		cancel(err)
		stopped <- err
	}()
	err := do(ctx, r.Parts())
	cancel(nil)
	return errors.Join(err, <-stopped)
}
