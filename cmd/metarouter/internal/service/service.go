// Package service runs a router that serves clients: the router itself, its MCP server, the
// edits of its configuration, its observers and its listeners.
//
// A [Service] does not know how clients reach it: each [Listener] serves clients of one
// kind, such as the client on stdin and stdout. A command that needs a router for a moment
// uses [RunRouter] alone.
package service

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/admin"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/profile"
	"github.com/mcp-metarouter/metarouter/internal/reload"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/server"
)

// headStart is about as long as a client's first requests take.
const headStart = 40 * time.Millisecond

// A listener returns ErrClientLeft when its client has left and the router is to end.
var ErrClientLeft = errors.New("the client has left")

// A Service is a router that serves clients.
type Service struct {
	Config   config.Config
	Complete func(config.Config) config.Config               // gives a configuration that is read the values of variables that this process lacks
	Secrets  func(c config.Config, again bool) config.Config // gives it the secrets to which "http" refers, read again or as they were read for the same text; nil without HTTP
	Override func(*config.Router)                            // sets the options of the command line in each configuration that is read
	Trusted  func(config.Config) error                       // why an edited configuration may not be used
	Chosen   []string                                        // the profiles of all clients
	View     server.View                                     // of clients that choose no other
	Watch    bool                                            // read the configuration again when its files change
	Hangup   chan os.Signal                                  // a value makes the router read the configuration again

	Options   adapter.Options // of the router; the Service sets the observers
	Observers *Observers      // which the caller closes
	Metrics   bool            // serve metrics
	Screen    io.Writer       // shows how the servers start; nil for no terminal
	Admin     admin.Options
	Version   string
	Log       *zap.Logger

	Pages     *http.ServeMux // routes for people and programs, in addition to MCP
	Listeners []Listener
}

// A Listener serves clients of one kind. It returns when it has ended, with
// ErrClientLeft if the router is to end with it.
type Listener func(ctx context.Context, r *adapter.Router, s *server.Servers) error

// Run runs the router and its listeners until ctx ends or a listener fails. The router
// goes on until the listeners have answered their clients.
func (s *Service) Run(ctx context.Context) error {
	c := s.Config
	s.Override(&c.Router)
	observers := s.Observers
	observers.addPages(c, s.Admin)
	options, m := s.Options, (*server.Servers)(nil)
	options.HeadStart = headStart
	options.Legacy = func() bool { return !s.Metrics && legacy(m.Clients()) } // called once the router runs
	observers.ObserveRouter(&options)
	signal.Notify(s.Hangup, syscall.SIGHUP)
	defer signal.Stop(s.Hangup)
	edits := make(chan config.Config)
	record := &editRecord{record: observers.audit.Record, last: c}
	defer record.started(s.Version)()
	pipeline := s.pipeline(observers, record)
	// The router must outlive the signal that ends ctx: the server answers the requests in
	// flight first. So the signal ends the listeners, and then the router ends.
	signalled := ctx
	options.ServeNode = func(ctx context.Context, v *adapter.NodeView, conn net.Conn) { // called once the router runs
		if err := m.ServeNode(ctx, v, conn); err != nil {
			s.Log.Debug("a stream of another node has ended", zap.String("node", v.Node()), zap.Error(err))
		}
	}
	router := adapter.New(c, options)
	m = s.servers(router)
	err := RunRouter(context.WithoutCancel(ctx), router, edits, func(ctx context.Context, r *adapter.Router) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(signalled, cancel)()
		observers.register(s.Pages, r, m, s.Metrics, s.Log)
		g, ctx := errgroup.WithContext(ctx)
		g.Go(func() error { return pipeline.Run(ctx, c, edits) })
		g.Go(func() error { return m.Run(ctx) })
		if s.Screen != nil {
			g.Go(func() error { ShowStart(ctx, s.Screen, r); return nil })
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

// legacy reports whether there are clients, and all speak revisions up to 2025-11-25. Clients over HTTP
// come and go, so this says nothing of a router that serves them.
func legacy(clients []server.Client) bool {
	return len(clients) > 0 && !slices.ContainsFunc(clients, func(c server.Client) bool {
		return c.Revision == "" || c.Revision > session.LatestLegacy
	})
}

// pipeline returns the pipeline by which edits of the configuration reach the router.
func (s *Service) pipeline(o *Observers, record *editRecord) reload.Pipeline {
	return reload.Pipeline{
		Watch:  s.Watch,
		Reload: s.Hangup,
		Adjust: func(c config.Config, asked bool) config.Config {
			if c = s.Complete(c); s.Secrets != nil {
				c = s.Secrets(c, asked)
			}
			o.mask.Learn(c) // before it is in use
			s.Override(&c.Router)
			return c
		},
		Trusted: s.Trusted,
		Judged: func(why error) {
			o.api.Judged(why)
			record.judged(why)
		},
		Sent: func(c config.Config) {
			for _, p := range c.Problems {
				s.Log.Warn(p.Error())
			}
			record.applied(c)
			o.edited(c)
		},
		Log: s.Log,
	}
}

func (s *Service) servers(r *adapter.Router) *server.Servers {
	return server.NewServers(server.Profiles{
		Always: s.Chosen,
		View:   s.View,
		Open: func(v server.View, chosen []string) (server.Router, server.Options) {
			live := reload.Follow(r, func(c config.Config) *server.Options { return serverOptions(c, v, chosen) })
			options := server.Options{Live: live, Version: s.Version, Log: s.Log}
			s.Observers.observeServer(&options)
			view := r.Scope(chosen...)
			options.Runner = view
			return view, options
		},
		Exists: func(chosen string) bool {
			return profile.Exists(r.Config().Router.Profiles, chosen) && !slices.ContainsFunc(profile.OnlyOf(chosen), func(server string) bool { return !has(r, server) })
		},
		Edited:   r.Edited,
		ReadOnly: profile.ReadOnly,
		Only:     profile.Only,
		Whole:    r,
		Address:  r.Address, DialRouter: r.DialRouter,
	})
}

// has reports whether a server is in the configuration, or on another node.
func has(r *adapter.Router, server string) bool {
	return slices.ContainsFunc(r.Config().Servers, func(s config.Server) bool { return s.Name == server }) ||
		slices.ContainsFunc(r.Servers(), func(s status.Server) bool { return s.Name == server })
}

func serverOptions(c config.Config, v server.View, chosen []string) *server.Options {
	rules, applying := profile.Of(c.Router.Profiles, chosen...), profile.Applying(c.Router.Profiles, chosen)
	pinned, ok := rules.Pinned()
	if !ok {
		pinned = c.Router.Pinned
	}
	var limits any // nil if nothing limits the clients
	if len(applying) > 0 {
		limits = profile.Existing(c.Router.Profiles, chosen)
	}
	options := &server.Options{
		Mode: cmp.Or(rules.Mode(), v.Mode, c.Router.Mode), Names: cmp.Or(v.Names, c.Router.Names), Separator: c.Router.Separator,
		Name: c.Router.Gateway.Name, Prefix: c.Router.Gateway.Prefix,
		ToolBudget: c.Router.ToolBudget, ListWait: c.Router.ListWait, Pinned: pinned,
		RouteThreshold: c.Router.RouteThreshold, Scripts: rules.Scripts(cmp.Or(v.Mode, c.Router.Mode)),
		FindTools:     c.Router.FindTools || v.FindTools,
		Rules:         limits,
		Profile:       strings.Join(applying, "+"),
		LimitsResults: slices.ContainsFunc(c.Servers, func(s config.Server) bool { return s.MaxResultTokens > 0 || len(s.ToolResultTokens) > 0 }),
		Classifies:    c.Router.Classification != nil,
	}
	if !c.Router.FindTools {
		options.FindAbove = c.Router.ToolBudget
	}
	for _, choice := range chosen {
		if servers := profile.OnlyOf(choice); len(servers) == 1 {
			options.Itself, options.Mode, options.Names = servers[0], "direct", "own"
		}
	}
	return options
}

// RunRouter runs do while the router runs, and returns when both have ended.
func RunRouter(ctx context.Context, r *adapter.Router, edits <-chan config.Config, do func(context.Context, *adapter.Router) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stopped := make(chan error, 1)
	go func() {
		err := r.Run(ctx, edits)
		cancel(err)
		stopped <- err
	}()
	err := do(ctx, r)
	cancel(nil)
	return errors.Join(err, <-stopped)
}
