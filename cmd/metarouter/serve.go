package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sync/errgroup"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/daemon"
	"github.com/mcp-metarouter/metarouter/internal/pipe"
	"github.com/mcp-metarouter/metarouter/internal/telemetry"
	"github.com/mcp-metarouter/metarouter/internal/terminal"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/server"
	"github.com/mcp-metarouter/metarouter/session"
	"github.com/mcp-metarouter/metarouter/supervisor"
)

// serveFlags are the flags of serve.
type serveFlags struct {
	mode, names string
	noWatch     bool
	http        string // address
	overHTTP    bool
	stdio       bool
	tokenFile   string
	hosts       []string
	tlsCert     string
	tlsKey      string
	host        bool // serve the clients that other processes hand over
}

func (a *app) serve() *cobra.Command {
	var f serveFlags
	var cmd *cobra.Command
	cmd = leaf("serve", "Be the MCP server for a client, over stdio, or for any number over HTTP",
		`  metarouter serve
  metarouter serve --config ~/team.mcp.json --mode search
  metarouter serve --http 127.0.0.1:8787
  METAROUTER_TOKEN=… metarouter serve --http 0.0.0.0:8787 --allow-host router.example.com
  METAROUTER_TOKEN=… metarouter serve --http 0.0.0.0:8787 --tls-cert cert.pem --tls-key key.pem`,
		cobra.NoArgs, func(ctx context.Context, _ []string) error {
			if os.Getenv(supervisor.DepthVariable) != "" {
				return a.refuse()
			}
			f.overHTTP = cmd.Flags().Changed("http")
			f.stdio = f.stdio && (!f.overHTTP || cmd.Flags().Changed("stdio"))
			return a.serveWith(ctx, f)
		})
	flags := cmd.Flags()
	flags.StringVar(&f.mode, "mode", "", "auto, search or direct (default as configured, else auto)")
	flags.StringVar(&f.names, "names", "", "prefixed or bare (default as configured, else prefixed)")
	flags.BoolVar(&f.noWatch, "no-watch", false, "reload the configuration on SIGHUP only")
	flags.StringVar(&f.http, "http", "", "serve over HTTP at this `address`; \"\" is the configured one, else 127.0.0.1:8787")
	flags.BoolVar(&f.stdio, "stdio", true, "speak over stdin and stdout; beside --http only if it is given, and then all ends with the input")
	flags.StringVar(&f.tokenFile, "token-file", "", "`file` with a token that HTTP clients must bear (also METAROUTER_TOKEN)")
	flags.StringArrayVar(&f.hosts, "allow-host", nil, "`name` by which HTTP clients may call this machine; repeatable")
	flags.StringVar(&f.tlsCert, "tls-cert", "", "serve HTTPS with the certificate and its chain in this PEM `file`, which is read again when it changes")
	flags.StringVar(&f.tlsKey, "tls-key", "", "PEM `file` with the certificate's key")
	flags.BoolVar(&a.standalone, "standalone", false, "share no servers with other clients' routers of the same configuration")
	flags.BoolVar(&f.host, hostFlag, false, "")
	flags.MarkHidden(hostFlag)
	return cmd
}

func (a *app) serveWith(ctx context.Context, f serveFlags) error {
	// A client that has gone must not kill us before the servers are stopped, which
	// would inherit it if the signal were ignored.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	c, named, err := a.locate()
	if err == nil && !named {
		err = a.requireTrust(ctx, c)
	}
	if err != nil {
		return err
	}
	if !f.stdio && !f.overHTTP {
		return usage(errors.New("--stdio=false leaves nothing to serve; add --http"))
	}
	if (f.tlsCert != "" || f.tlsKey != "") && !f.overHTTP {
		return usage(errors.New("--tls-cert and --tls-key need --http, as over stdio there is no TLS"))
	}
	if err := f.override(&config.Router{}); err != nil {
		return usage(err)
	}
	if f.host {
		return a.host(ctx, c, named, f)
	}
	log, err := a.log(zapcore.InfoLevel)
	if err != nil {
		return err
	}
	for _, p := range c.Problems {
		log.Warn(p.Error())
	}
	if err := telemetry.CanWrite(c); err != nil { // said here, since a shared router has nobody to say it to
		return inConfig(c, err)
	}
	face := face{app: a, config: c, named: named, flags: f, log: log, sole: true, hangup: make(chan os.Signal, 1), pages: http.NewServeMux()}
	var journal *server.Journal
	if f.overHTTP {
		web, err := listenHTTP(ctx, c.Router.HTTP, f, log)
		if err != nil {
			return err
		}
		defer web.listener.Close()
		web.options.Pages = face.pages
		face.sole = false
		face.doors = append(face.doors, func(ctx context.Context, _ *adapter.Router, s *server.Server) error { return web.serve(ctx, s, log) })
	} else if a.mayShare() {
		if journal, err = a.share(ctx, c, named, f, log); !errors.Is(err, daemon.ErrCannotShare) {
			return err
		}
		log.Info("serving the client in a process of its own", zap.Error(err))
	}
	_, live := a.stderr.(*terminal.Screen)
	face.live = live && !(f.stdio && (isTerminal(a.streams[0]) || isTerminal(a.streams[1]))) // else the protocol is on the terminal
	if f.stdio {
		face.doors = append(face.doors, func(ctx context.Context, _ *adapter.Router, s *server.Server) error {
			in := a.stdin
			if f, ok := in.(*os.File); ok {
				in = pipe.Inherited(f)
			}
			return cmp.Or(s.Serve(ctx, in, a.stdout, journal), errLeft)
		})
	}
	face.doors = append(face.doors, a.commands(c, face.pages, log))
	return face.serve(ctx)
}

// override sets in r what the flags say.
func (f serveFlags) override(r *config.Router) error {
	switch f.mode {
	case "":
	case "auto", "search", "direct":
		r.Mode = f.mode
	default:
		return fmt.Errorf("--mode %q: write auto, search or direct", f.mode)
	}
	switch f.names {
	case "":
	case "prefixed", "bare":
		r.Names = f.names
	default:
		return fmt.Errorf("--names %q: write prefixed or bare", f.names)
	}
	return nil
}

// refuse tells the router that started this one, in its own protocol, that it
// must not.
func (a *app) refuse() error {
	const why = "a router was started inside a router"
	id := json.RawMessage(nil)
	if line, err := wire.NewReader(a.stdin, wire.MaxLine).Next(); err == nil {
		if m, err := wire.Parse(line); err == nil {
			id = m.ID
		}
	}
	a.stdout.Write(wire.AppendError(nil, id, wire.Marshal(session.Error{
		Code: supervisor.SelfCode, Message: why, Data: json.RawMessage(`{"metarouter":"self"}`),
	})))
	return usage(errors.New(why + "; take the entry out of the configuration"))
}

// headStart is about what a client's first requests take.
const headStart = 40 * time.Millisecond

// errLeft says that the client has left for whose sake the router runs.
var errLeft = errors.New("the client has left")

// A face is a router that clients can reach.
type face struct {
	app    *app
	config config.Config
	named  bool // the configuration was named, not found
	flags  serveFlags
	log    *zap.Logger
	sole   bool           // there is one client only, ever
	live   bool           // somebody at a terminal sees how the servers start
	hangup chan os.Signal // has the configuration read again
	pages  *http.ServeMux // for people, beside MCP
	doors  []door
	watch  *watch // what is told of it; set by serve
}

// A door is where clients come in. It returns when it is closed, errLeft if the
// router is to end with it.
type door func(ctx context.Context, r *adapter.Router, s *server.Server) error

// serve serves clients until ctx ends or a door says so. The router goes on until
// those over HTTP are answered.
func (f *face) serve(ctx context.Context) error {
	a, c, log := f.app, f.config, f.log
	read, edits := make(chan config.Config), make(chan config.Config)
	if err := f.flags.override(&c.Router); err != nil {
		return usage(err)
	}
	var err error
	if f.watch, err = openWatch(c, log); err != nil {
		return err
	}
	defer f.watch.close()
	f.watch.show(c, f.flags.overHTTP, log)
	o := a.options(log)
	o.Sole, o.HeadStart, o.Watched = f.sole, headStart, f.live
	f.watch.observe(&o)
	signalled := ctx
	err = a.running(context.WithoutCancel(ctx), adapter.New(c, o), edits, func(ctx context.Context, r *adapter.Router) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(signalled, cancel)()
		g, ctx := errgroup.WithContext(ctx)
		g.Go(func() error { return reloadOnHangup(ctx, f.config, f.hangup, read, f.watch.board.Rejected, log) })
		if !f.flags.noWatch {
			g.Go(func() error { return config.Watch(ctx, f.config, read, f.watch.board.Rejected, log) })
		}
		g.Go(func() error { return a.approve(ctx, f.named, f.flags, read, edits, f.watch, log) })
		options := server.Options{
			Mode: c.Router.Mode, Names: c.Router.Names, Separator: c.Router.Separator,
			ToolBudget: c.Router.ToolBudget, ListWait: c.Router.ListWait, Pinned: c.Router.Pinned,
			RouteThreshold: c.Router.RouteThreshold, FillArguments: c.Router.FillArguments, LimitsResults: limitsResults(c), Classifies: c.Router.Classification != nil, Version: version, Log: log,
		}
		f.watch.observeFace(&options)
		s := server.New(r, options)
		f.watch.register(f.pages, r, s, log)
		g.Go(func() error { return s.Run(ctx) })
		g.Go(func() error {
			r.Started(ctx)
			debug.FreeOSMemory() // what only the start has needed
			unmapStart()
			return nil
		})
		if f.live {
			g.Go(func() error { a.untilStarted(ctx, r); return nil })
		}
		for _, door := range f.doors {
			g.Go(func() error { return door(ctx, r, s) })
		}
		return g.Wait()
	})
	if errors.Is(err, errLeft) {
		return nil
	}
	return err
}

// recheck is how often an edit that is not trusted is looked at again.
const recheck = time.Second

var errUntrusted = errors.New("the edit is not trusted, since the file was found and not named: approve it with 'metarouter trust'")

// approve passes edits on. Those of a file that was merely found wait until they
// are trusted.
func (a *app) approve(ctx context.Context, named bool, f serveFlags, read <-chan config.Config, edits chan<- config.Config, w *watch, log *zap.Logger) error {
	var next config.Config
	var pass chan<- config.Config // edits, while there is one to pass on
	var again <-chan time.Time    // while one waits for trust
	for {
		select {
		case next = <-read:
			pass, again = edits, nil
			w.learn(next)
			_ = f.override(&next.Router) // in order at the start, so it is now
			if !named && !next.Trusted(a.data) {
				log.Warn(errUntrusted.Error(), zap.Strings("file", next.Files))
				w.board.Rejected(errUntrusted)
				pass, again = nil, time.After(recheck)
			}
		case <-again:
			again = time.After(recheck)
			if next.Trusted(a.data) {
				pass, again = edits, nil
			}
		case pass <- next:
			pass = nil
			w.board.Loaded(next)
		case <-ctx.Done():
			return nil
		}
	}
}

// reloadOnHangup reads the configuration again at each SIGHUP. judged is told whether it
// could be used.
func reloadOnHangup(ctx context.Context, c config.Config, hangup chan os.Signal, edits chan<- config.Config, judged func(error), log *zap.Logger) error {
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	for {
		select {
		case <-hangup:
			next, err := config.Load(c.Files...)
			judged(err)
			if err != nil {
				log.Error("can't reload the configuration; what runs stays", zap.Error(err))
				continue
			}
			select {
			case edits <- next:
			case <-ctx.Done():
				return nil
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// limitsResults reports whether results of any server may be cut.
func limitsResults(c config.Config) bool {
	return slices.ContainsFunc(c.Servers, func(s config.Server) bool { return s.MaxResultTokens > 0 || len(s.ToolResultTokens) > 0 })
}
