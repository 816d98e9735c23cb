package service

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	ossignal "os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/admin"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/daemon"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/telemetry"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/web"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/configpath"
	"github.com/mcp-metarouter/metarouter/internal/pipe"
	serverprocess "github.com/mcp-metarouter/metarouter/internal/process"
	"github.com/mcp-metarouter/metarouter/internal/profile"
	"github.com/mcp-metarouter/metarouter/internal/safefile"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/server"
	"github.com/mcp-metarouter/metarouter/supervisor"
)

// Flags has the flags and the command line of serve.
type Flags struct {
	server.View
	Profile    string   // "" without one
	Only       []string // servers; all if it is empty
	Cluster    string   // URLs of NATS; "" if the configuration says
	NoWatch    bool
	Web        web.Flags
	OverHTTP   bool // --http was given
	Stdio      bool
	Standalone bool
	Host       string // the path of the socket at which to serve clients of other processes; "" to serve one over stdio

	Args    []string // the command line after the program's name
	Program string   // identifies this build, as [daemon.Program] does
}

// check fails if the flags contradict each other, or the router's configuration.
func (f Flags) check(r config.Router) error {
	if !f.Stdio && !f.OverHTTP {
		return errors.New("with --stdio=false there is no client to serve; add --http ADDRESS")
	}
	if !f.OverHTTP && (f.Web.TokenFile != "" || f.Web.TLSCert != "" || f.Web.TLSKey != "" || len(f.Web.Hosts) > 0) {
		return errors.New("--token-file, --tls-cert, --tls-key and --allow-host need --http")
	}
	return f.override(&r)
}

// override sets the flags in r that are no part of a view.
func (f Flags) override(r *config.Router) error {
	if !slices.Contains([]string{"", "auto", "search", "direct", "code"}, f.Mode) {
		return fmt.Errorf("--mode %q is unknown; write auto, search, direct or code", f.Mode)
	}
	if !slices.Contains([]string{"", "prefixed", "bare"}, f.Names) {
		return fmt.Errorf("--names %q is unknown; write prefixed or bare", f.Names)
	}
	if f.Cluster != "" {
		if err := r.JoinCluster(f.Cluster); err != nil {
			return fmt.Errorf("--cluster %w", err)
		}
	}
	return nil
}

// checkOnly fails if --only names a server that the configuration lacks, or that the profile hides. Servers of other nodes are not known yet.
func (f Flags) checkOnly(c config.Config) error {
	rules := profile.Of(c.Router.Profiles, chosen(f.Profile, nil)...)
	names := slices.DeleteFunc(configfile.ServerNames(c), func(name string) bool { return !rules.Server(name) })
	for _, name := range f.Only {
		if !slices.Contains(names, name) && !(strings.Contains(name, "@") && rules.Server(name)) {
			return fmt.Errorf("--only: there is no server %q; the servers are %s", name, strings.Join(names, ", "))
		}
	}
	return nil
}

type process struct {
	*Runner
	flags Flags
	out   *console.Console
	log   *zap.Logger
	named bool // the user has named the configuration, or it is the user's own
}

// Serve serves clients until ctx ends, or the client over stdio has left.
func Serve(ctx context.Context, local *Runner, f Flags) error {
	p := &process{Runner: local, flags: f, out: local.Files.Console}
	if os.Getenv(serverprocess.DepthVariable) != "" {
		return console.Usage(refuseNested(p.out.In, p.out.Raw))
	}
	p.out.NoQuestions = f.Stdio // stdin is the protocol's
	// A client that has left must not kill this process before the servers are stopped.
	// SIGPIPE is caught, since servers would inherit it if it were ignored.
	ossignal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	hasClient := f.Stdio && f.Host == "" && !console.IsTerminal(p.out.Streams[0])
	c, err := p.configuration(ctx, hasClient)
	if err != nil {
		if hasClient && ctx.Err() == nil {
			// Many clients show the answer, and do not show stderr.
			refuse(p.out.In, p.out.Raw, session.Error{Code: session.CodeInternal, Message: "metarouter can't start: " + err.Error()})
		}
		return err
	}
	if err := f.check(c.Router); err != nil {
		return console.Usage(err)
	}
	if f.Host != "" {
		return p.hostClients(ctx, c)
	}
	if err := f.checkOnly(c); err != nil {
		return console.Usage(err)
	}
	if p.log, err = p.out.Logger(zapcore.InfoLevel, nil); err != nil {
		return err
	}
	if err := p.checkFiles(c); err != nil {
		return err
	}
	if !f.OverHTTP && p.mayShare() {
		return p.share(ctx, c)
	}
	in := p.out.In
	if file, ok := in.(*os.File); ok {
		in = pipe.Inherited(file)
	}
	return p.serve(ctx, c, in, p.out.Raw)
}

// serve serves clients in this process. in and out are the streams of the client over stdio.
func (p *process) serve(ctx context.Context, c config.Config, in io.Reader, out io.Writer) error {
	terms := p.terms(c.Files)
	s := p.newService(p.Settle(ctx, c, false))
	reachable := make(chan struct{}) // closed once commands and clients over stdio find this router
	if known := len(s.config.Problems); p.flags.OverHTTP {
		s.secrets = secretsOf(ctx, p.Guard(), p.log)
		s.config = s.secrets(s.config, true)
		for _, problem := range s.config.Problems[known:] {
			p.log.Warn(problem.Error())
		}
		l, err := web.New(s.config.Router.HTTP, p.flags.Web, s.pages, p.log)
		if err != nil {
			return console.Usage(err)
		}
		if err := l.Listen(ctx); err != nil {
			return err
		}
		defer l.Close()
		s.listeners = append(s.listeners, func(ctx context.Context, r *adapter.Router, m *server.Servers) error {
			<-reachable // which the log says too
			return l.Serve(ctx, m, r)
		})
	}
	if p.flags.Stdio {
		s.listeners = append(s.listeners, func(ctx context.Context, _ *adapter.Router, m *server.Servers) error {
			return cmp.Or(m.Default.Serve(ctx, nil, in, out), errClientLeft)
		})
	}
	if p.flags.OverHTTP && p.maySocket() {
		s.listeners = append(s.listeners, func(ctx context.Context, r *adapter.Router, m *server.Servers) error {
			h := s.host(terms, r, m, new(daemon.Log))
			h.Stays = true
			h.Listening = sync.OnceFunc(func() { close(reachable) })
			defer h.Listening() // if it fails
			noteUnreachable(p.log, h.TakeOver(ctx, daemon.SocketsOf(p.Files.Data, c.Files), s.requests(ctx), p.noteOther))
			return nil
		})
	} else {
		close(reachable)
		s.listeners = append(s.listeners, func(ctx context.Context, _ *adapter.Router, _ *server.Servers) error { // for commands of the same user
			noteUnreachable(p.log, daemon.Serve(ctx, daemon.SocketsOf(s.Files.Data, s.config.Files), s.requests(ctx)))
			return nil
		})
	}
	s.shows = console.IsTerminal(p.out.Streams[2]) && !(p.flags.Stdio && (console.IsTerminal(p.out.Streams[0]) || console.IsTerminal(p.out.Streams[1]))) // it would stand among messages
	return s.run(ctx)
}

// secretsOf returns the function that reads the secrets to which "http" refers. Commands print some, and may ask a person: they
// do not run again for the same text.
func secretsOf(ctx context.Context, guard []string, log *zap.Logger) func(c config.Config, again bool) config.Config {
	var read, whole config.Config
	return func(c config.Config, again bool) config.Config {
		if again || !c.Equal(read) {
			read, whole = c, supervisor.WithSecrets(ctx, c, guard, log)
		}
		return whole
	}
}

// noteOther logs why another router that runs with the configuration is not this one.
func (p *process) noteOther(why string) {
	p.log.Info("another router runs with this configuration, and has its own copy of the servers", zap.String("reason", why))
}

// configuration returns the configuration to serve. With a client, no file is no error.
func (p *process) configuration(ctx context.Context, hasClient bool) (c config.Config, err error) {
	c, p.named, err = p.Files.Locate()
	if none, ok := errors.AsType[*configfile.NoConfiguration](err); ok && (hasClient || p.flags.OverHTTP || p.flags.Host != "") {
		c, p.named, err = noServers(none)
	}
	if err == nil && !p.named {
		c, err = p.Files.RequireTrust(ctx, c)
	}
	if err == nil && p.flags.Host == "" {
		err = configfile.CheckProfile(c, p.flags.Profile)
	}
	return c, err
}

// checkFiles logs the problems of the configuration and of the data folder, and returns why a log
// can't be written: a shared router could not report that to the user.
func (p *process) checkFiles(c config.Config) error {
	for _, problem := range c.Problems {
		p.log.Warn(problem.Error())
	}
	if exposed, ok := errors.AsType[*safefile.Exposed](safefile.OwnersOnly(p.Files.Data)); ok {
		p.log.Warn("the data folder is not used for approvals and for programs of npx packages", zap.Error(exposed))
	}
	if err := telemetry.CanWrite(c); err != nil {
		return configfile.InConfig(c, err)
	}
	if err := configfile.CheckAudit(c); err != nil {
		return configfile.InConfig(c, err)
	}
	return nil
}

// noServers returns the configuration of a user who has no file yet: a router without servers,
// which says why, and which reads the user's own file as soon as it exists.
func noServers(why *configfile.NoConfiguration) (c config.Config, named bool, err error) {
	own, err := configpath.Own()
	if err != nil {
		return c, false, console.Usage(err)
	}
	c, err = config.Load()
	c.Files = []string{own}
	c.Problems = []config.Problem{why.Problem("warning")}
	return c, true, err
}

// chosen returns the profiles that a client sees: the profile of its choice, and the one of its choice of servers.
func chosen(of string, only []string) (names []string) {
	if of != "" {
		names = append(names, of)
	}
	if len(only) > 0 {
		names = append(names, profile.Only(only...))
	}
	return names
}

// trusted returns the function that says why an edited configuration may not be used; nil if each may.
func (p *process) trusted() func(config.Config) error {
	if p.named {
		return nil
	}
	return func(c config.Config) error {
		return configfile.Explain(c.Text.Trusted(p.Files.Data), p.Files.TrustCommand(c.Files[0]))
	}
}

// requests returns the handler of the requests of other processes of this user: of commands, and of the
// pages that 'metarouter dashboard' shows.
func (s *service) requests(ctx context.Context) *http.ServeMux {
	mux := http.NewServeMux()
	daemon.Answer(mux, s.flags.Program, admin.ForCommands(s.pages))
	mux.Handle("/", daemon.During(ctx, s.pages))
	return mux
}

func noteUnreachable(log *zap.Logger, err error) {
	if err != nil {
		log.Warn("other commands can't ask this router", zap.Error(err))
	}
}

// refuseNested answers the router that started this one, in MCP, that a router must not
// run inside a router. The error says the same.
func refuseNested(in io.Reader, out io.Writer) error {
	const why = "a router was started inside a router"
	refuse(in, out, session.Error{Code: session.CodeSelf, Message: why, Data: json.RawMessage(`{"metarouter":"self"}`)})
	return errors.New(why + "; take the entry out of the configuration")
}

// firstRequest is how long a client has to send its first request.
const firstRequest = 5 * time.Second

// refuse answers the first request of a client on stdin and stdout with an error.
func refuse(in io.Reader, out io.Writer, e session.Error) {
	answered := make(chan struct{})
	go func() { // a stuck read ends with the process
		defer close(answered)
		if line, err := wire.NewReader(in, wire.MaxLine).Next(); err == nil {
			m, _ := wire.Parse(line)
			out.Write(wire.AppendError(nil, m.ID, wire.Marshal(e)))
		}
	}()
	signal.Within(answered, firstRequest)
}
