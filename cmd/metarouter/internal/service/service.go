// Package service runs a router for a command. [Serve] carries out the command serve: it serves clients over stdio and HTTP
// in this process, or has a process that several clients share serve the one over stdio. A [Runner] makes the router of a
// command that needs one for a moment.
//
// The service of a router has the router itself, its MCP server, the edits of its configuration, its observers and its
// listeners. It does not know how clients reach it: each listener serves clients of one kind, such as the client on
// stdin and stdout.
package service

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/admin"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/profile"
	"github.com/mcp-metarouter/metarouter/internal/reload"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/server"
)

// A listener serves clients of one kind. It returns when it has ended, with
// errClientLeft if the router is to end with it.
type listener func(ctx context.Context, r *adapter.Router, s *server.Servers) error

var errClientLeft = errors.New("the client has left")

// A service is a router that serves clients.
type service struct {
	*process
	config    config.Config
	secrets   func(c config.Config, again bool) config.Config // gives a configuration the secrets to which "http" refers, read again or as they were read for the same text; nil without HTTP
	hangup    chan os.Signal                                  // a value makes the router read the configuration again
	shows     bool                                            // how the servers start, on the terminal
	pages     *http.ServeMux                                  // routes for people and programs, in addition to MCP
	listeners []listener
	observers *observers // that the configuration asks for
}

// newService returns the service of a configuration, without listeners.
func (p *process) newService(c config.Config) *service {
	return &service{process: p, config: c, hangup: make(chan os.Signal, 1), pages: http.NewServeMux()}
}

// run runs the router and its listeners until ctx ends or a listener fails. The router
// goes on until the listeners have answered their clients.
func (s *service) run(ctx context.Context) (err error) {
	c := s.config
	if s.observers, err = openObservers(c, s.Version, s.log); err != nil {
		return configfile.InConfig(c, err)
	}
	defer s.observers.close()
	if s.observers.audit, err = openAudit(c, s.Files.Data, s.observers.mask.Text, s.log); err != nil {
		return configfile.InConfig(c, err)
	}
	_ = s.flags.override(&c.Router) // Serve has checked them
	s.observers.addPages(c, admin.Options{Version: s.Version, DataDir: s.Files.Data, Watched: !s.flags.NoWatch, TrustCommand: s.Files.TrustCommand})
	options, m := s.Options(s.log), (*server.Servers)(nil)
	options.Legacy = func() bool { return !s.flags.OverHTTP && legacy(m.Clients()) } // called once the router runs
	options.Audit = s.observers.audit.Record
	s.observers.observeRouter(&options)
	signal.Notify(s.hangup, syscall.SIGHUP)
	defer signal.Stop(s.hangup)
	edits := make(chan config.Config)
	record := &editRecord{record: s.observers.audit.Record, last: c}
	defer record.started(s.Version)()
	// The router must outlive the signal that ends ctx: the server answers the requests in
	// flight first. So the signal ends the listeners, and then the router ends.
	signalled := ctx
	options.ServeNode = func(ctx context.Context, v *adapter.NodeView, conn net.Conn) { // called once the router runs
		if err := m.ServeNode(ctx, v, conn); err != nil {
			s.log.Debug("a stream of another node has ended", zap.String("node", v.Node()), zap.Error(err))
		}
	}
	router := adapter.New(c, options)
	m = s.servers(router)
	err = runRouter(context.WithoutCancel(ctx), router, edits, func(ctx context.Context, r *adapter.Router) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(signalled, cancel)()
		s.observers.api.Register(s.pages, r, m)
		if s.flags.OverHTTP {
			s.pages.Handle("GET /metrics", s.observers.metrics.Handler(r, s.log))
		}
		g, ctx := errgroup.WithContext(ctx)
		g.Go(func() error { return s.pipeline(record).Run(ctx, c, edits) })
		g.Go(func() error { return m.Run(ctx) })
		if s.shows {
			g.Go(func() error { showStart(ctx, s.out, r); return nil })
		}
		for _, listen := range s.listeners {
			g.Go(func() error { return listen(ctx, r, m) })
		}
		return g.Wait()
	})
	if errors.Is(err, errClientLeft) {
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
func (s *service) pipeline(record *editRecord) reload.Pipeline {
	return reload.Pipeline{
		Watch:  !s.flags.NoWatch,
		Reload: s.hangup,
		Adjust: func(c config.Config, asked bool) config.Config {
			if c = s.Complete(c); s.secrets != nil {
				c = s.secrets(c, asked)
			}
			s.observers.mask.Learn(c) // before it is in use
			_ = s.flags.override(&c.Router)
			return c
		},
		Trusted: s.trusted(),
		Judged: func(why error) {
			s.observers.api.Judged(why)
			record.judged(why)
		},
		Sent: func(c config.Config) {
			for _, p := range c.Problems {
				s.log.Warn(p.Error())
			}
			record.applied(c)
			s.observers.access.Edit(c)
			s.observers.api.Loaded(c)
		},
		Log: s.log,
	}
}

// servers returns the MCP servers of the router. A router of several processes lets their clients choose a view.
func (s *service) servers(r *adapter.Router) *server.Servers {
	always, view := chosen(s.flags.Profile, s.flags.Only), s.flags.View
	if s.flags.Host != "" {
		always, view = nil, server.View{}
	}
	return server.NewServers(server.Profiles{
		Always: always,
		View:   view,
		Open: func(v server.View, chosen []string) (server.Router, server.Options) {
			live := reload.Follow(r, func(c config.Config) *server.Options { return serverOptions(c, v, chosen) })
			options := server.Options{Live: live, Version: s.Version, Log: s.log}
			options.Observer, options.Tracer, options.Savings = s.observers, s.observers.traces.Tracer(), s.observers.metrics
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

// runRouter runs do while the router runs, and returns when both have ended.
func runRouter(ctx context.Context, r *adapter.Router, edits <-chan config.Config, do func(context.Context, *adapter.Router) error) error {
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
