package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/admin"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/auditlog"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/service"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/telemetry"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/terminal"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/trust"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/web"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/pipe"
	"github.com/mcp-metarouter/metarouter/internal/safefile"
	"github.com/mcp-metarouter/metarouter/server"
	"github.com/mcp-metarouter/metarouter/supervisor"
)

// serveFlags are the flags of serve.
type serveFlags struct {
	mode, names string
	profile     string // "" if none was chosen
	cluster     string // URLs of NATS; "" if the configuration says
	noWatch     bool
	web         web.Flags
	overHTTP    bool // --http was given
	stdio       bool
	host        string // the path of the socket at which to serve clients of other processes; "" to serve one over stdio
}

func newServeCommand(env *environment) *cobra.Command {
	var f serveFlags
	var cmd *cobra.Command
	cmd = newCommand("serve", "Serve one MCP client over stdio, or any number over HTTP",
		`  metarouter serve
  metarouter serve --config ~/team.mcp.json --mode search
  metarouter serve --http 127.0.0.1:8787
  metarouter serve --http 127.0.0.1:8787 --cluster nats://hub:4222
  METAROUTER_TOKEN=… metarouter serve --http 0.0.0.0:8787 --allow-host router.example.com
  METAROUTER_TOKEN=… metarouter serve --http 0.0.0.0:8787 --tls-cert cert.pem --tls-key key.pem`,
		noArguments, func(ctx context.Context, _ []string) error {
			if os.Getenv(supervisor.DepthVariable) != "" {
				return exit.Usage(service.RefuseNested(env.In, env.Raw))
			}
			f.overHTTP = cmd.Flags().Changed("http")
			f.stdio = f.stdio && (!f.overHTTP || cmd.Flags().Changed("stdio"))
			env.NoQuestions = f.stdio // stdin is the protocol's
			return runServe(ctx, env, f)
		})
	flags := cmd.Flags()
	flags.StringVar(&f.mode, "mode", "", "Show clients tools in this `MODE`: search (tools that find and call the others), direct (all tools), or auto (direct if the definitions of all tools cost at most toolBudget tokens, else search). (default \"mode\" of the configuration, else auto)")
	flags.StringVar(&f.names, "names", "", "Name tools in direct mode in this `STYLE`: prefixed (server__tool) or bare (the tool's own name where it is unique). (default \"names\" of the configuration, else prefixed)")
	flags.StringVar(&f.profile, "profile", "", "Show clients only what the `profile` of this name allows. Clients over HTTP may choose another one too, and then see what both allow. (default the profile \"default\" if there is one, else everything)")
	flags.StringVar(&f.cluster, "cluster", "", "Join the cluster of routers at these `URLs` of NATS servers, such as nats://hub:4222, with commas between them. Other programs can read them, so write a password into the configuration. (default \"cluster.urls\" of the configuration, else no cluster)")
	flags.BoolVar(&f.noWatch, "no-watch", false, "Do not reload the configuration when its files change, only on SIGHUP. By default an edit takes effect when the file is saved.")
	flags.StringVar(&f.web.Address, "http", "", "Serve over HTTP at this `address`, such as 127.0.0.1:8787. If it is empty (\"\"), the address is \"http.addr\" of the configuration, or 127.0.0.1:8787 if that is not set. Without the flag nothing is served over HTTP.")
	flags.BoolVar(&f.stdio, "stdio", true, "Serve one client over stdin and stdout. With --http it is off by default. If you write both --http and --stdio, the router ends when stdin is closed.")
	flags.StringVar(&f.web.TokenFile, "token-file", "", "HTTP clients must send the token in this `file` as \"Authorization: Bearer TOKEN\". Tokens in METAROUTER_TOKEN and in \"http.tokens\" of the configuration are accepted too. (default no file)")
	flags.StringArrayVar(&f.web.Hosts, "allow-host", nil, "Accept HTTP requests whose Host header is this `name`, such as router.example.com. Repeat the flag for several names. By default only loopback names, the address of --http and the host of \"http.publicUrl\" are accepted.")
	flags.StringVar(&f.web.TLSCert, "tls-cert", "", "Serve HTTPS with the certificate and its chain in this PEM `file`, which is read again when it changes. (default \"http.tlsCert\" of the configuration, else plain HTTP)")
	flags.StringVar(&f.web.TLSKey, "tls-key", "", "Read the key of --tls-cert from this PEM `file`, which is read again when it changes. (default \"http.tlsKey\" of the configuration)")
	flags.BoolVar(&env.standalone, "standalone", false, "Run the servers for this client alone. By default clients with the same configuration share one router and its servers.")
	flags.StringVar(&f.host, hostFlag, "", "")
	flags.MarkHidden(hostFlag)
	return cmd
}

func runServe(ctx context.Context, env *environment, f serveFlags) error {
	// A client that has left must not kill this process before the servers are stopped.
	// SIGPIPE is caught, since servers would inherit it if it were ignored.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	if guard := env.local.Guard(); guard != nil && (f.host != "" || f.overHTTP || !mayShare(env)) {
		env.guard = supervisor.StartGuard(guard) // which takes as long as all before the first server
	}
	hasClient := f.stdio && f.host == "" && !console.IsTerminal(env.Streams[0])
	c, named, err := configToServe(ctx, env, &f, hasClient)
	if err != nil {
		if hasClient && ctx.Err() == nil {
			service.Refuse(env.In, env.Raw, err)
		}
		return err
	}
	if err := f.check(c.Router); err != nil {
		return exit.Usage(err)
	}
	if f.host != "" {
		return hostClients(ctx, env, c, named, f)
	}
	log, err := env.Logger(zapcore.InfoLevel)
	if err != nil {
		return err
	}
	if err := checkFiles(env, c, log); err != nil {
		return err
	}
	if !f.overHTTP && mayShare(env) {
		return serveShared(ctx, env, c, named, f, log)
	}
	in := env.In
	if file, ok := in.(*os.File); ok {
		in = pipe.Inherited(file)
	}
	return serveHere(ctx, env, c, named, f, log, in, env.Raw, &admin.Edits{Unwatched: f.noWatch})
}

// serveHere serves clients in this process, and listens in further ways. in and out are the streams of
// the client over stdio. said gets the edits.
func serveHere(ctx context.Context, env *environment, c config.Config, named bool, f serveFlags, log *zap.Logger, in io.Reader, out io.Writer, said *admin.Edits, further ...service.Listener) error {
	s := newService(env, c, named, f, log)
	if f.overHTTP {
		l, err := web.New(c.Router.HTTP, f.web, s.Pages, log)
		if err != nil {
			return exit.Usage(err)
		}
		if err := l.Listen(ctx); err != nil {
			return err
		}
		defer l.Close()
		s.Listeners = append(s.Listeners, func(ctx context.Context, r *adapter.Parts, m *server.Servers) error { return l.Serve(ctx, m, r) })
	}
	if f.stdio {
		s.Listeners = append(s.Listeners, listenOnStdio(in, out))
	}
	s.Admin.Edits = said
	s.Listeners = append(s.Listeners, listenForCommands(env, c, s.Pages, log))
	if !named && env.files.Data != "" && env.CanAsk() {
		s.Listeners = append(s.Listeners, func(ctx context.Context, _ *adapter.Parts, _ *server.Servers) error {
			said.Ask(ctx, env.files, log)
			return nil
		})
	}
	s.Listeners = append(s.Listeners, further...)
	s.Options.Sole = !f.overHTTP
	if screen, ok := env.Err.(*terminal.Screen); ok && !(f.stdio && (console.IsTerminal(env.Streams[0]) || console.IsTerminal(env.Streams[1]))) { // messages on the terminal leave no room for it
		s.Screen = screen
	}
	return runService(ctx, s)
}

// configToServe returns the configuration that serve is to use, and whether the user has named its
// file or it is the user's own. With a client, no file is no error.
func configToServe(ctx context.Context, env *environment, f *serveFlags, hasClient bool) (c config.Config, named bool, err error) {
	c, named, err = env.files.Locate()
	if _, none := errors.AsType[*configfile.NoConfiguration](err); none && (hasClient || f.overHTTP || f.host != "") {
		c, named, err = noServers(err)
	}
	if err == nil && !named {
		c, err = env.files.RequireTrust(ctx, c)
	}
	if err == nil && f.host == "" {
		err = configfile.CheckProfile(c, f.profile)
	}
	return c, named, err
}

// checkFiles logs what is wrong in the configuration and in the data folder, and returns why a log
// can't be written: a shared router could not report that to the user.
func checkFiles(env *environment, c config.Config, log *zap.Logger) error {
	for _, p := range c.Problems {
		log.Warn(p.Error())
	}
	if exposed, ok := errors.AsType[*safefile.Exposed](safefile.OwnersOnly(env.files.Data)); ok {
		log.Warn("the data folder is not used for approvals and for programs of npx packages", zap.Error(exposed))
	}
	if err := telemetry.CanWrite(c); err != nil {
		return configfile.InConfig(c, err)
	}
	if err := auditlog.Check(c); err != nil {
		return configfile.InConfig(c, err)
	}
	return nil
}

// noServers returns the configuration of a user who has no file yet: a router without servers,
// which says why, and which reads the user's own file as soon as it exists.
func noServers(why error) (c config.Config, named bool, err error) {
	own, err := config.Own()
	if err != nil {
		return c, false, exit.Usage(err)
	}
	c, err = config.Load()
	c.Files = []string{own}
	if none, ok := errors.AsType[*configfile.NoConfiguration](why); ok {
		c.Problems = []config.Problem{none.Problem("warning")}
	}
	return c, true, err
}

// newService returns the service of a configuration, without listeners.
func newService(env *environment, c config.Config, named bool, f serveFlags, log *zap.Logger) *service.Service {
	options := env.local.Options(log)
	options.GuardProcess = env.guard
	return &service.Service{
		Admin:    admin.Options{Version: version, DataDir: env.files.Data, Log: log, TrustCommand: env.files.TrustCommand},
		Config:   c,
		Override: func(r *config.Router) { _ = f.override(r) }, // runServe has checked the flags
		Trusted:  trustOfEdits(env, named),
		Profile:  f.profile,
		Watch:    !f.noWatch,
		Hangup:   make(chan os.Signal, 1),
		Options:  options,
		Metrics:  f.overHTTP,
		Version:  version,
		Log:      log,
		Pages:    http.NewServeMux(),
	}
}

// trustOfEdits returns the function that says why an edit may not be used.
func trustOfEdits(env *environment, named bool) func(config.Config) error {
	if named {
		return nil // everything may
	}
	return func(c config.Config) error {
		return trust.Explain(c.Trusted(env.files.Data), env.files.TrustCommand(c.Files[0]))
	}
}

// runService runs the service with the observers that its configuration asks for.
func runService(ctx context.Context, s *service.Service) (err error) {
	if s.Observers, err = service.OpenObservers(s.Config, version, s.Options.DataDir, s.Metrics, s.Log); err != nil {
		return configfile.InConfig(s.Config, err)
	}
	defer s.Observers.Close()
	return s.Run(ctx)
}

// listenOnStdio returns a listener for the client over stdio.
func listenOnStdio(in io.Reader, out io.Writer) service.Listener {
	return func(ctx context.Context, _ *adapter.Parts, s *server.Servers) error {
		return cmp.Or(s.Default().Serve(ctx, in, out), service.ErrClientLeft)
	}
}

// check fails if the flags contradict each other, or what the configuration says of the router.
func (f serveFlags) check(r config.Router) error {
	if !f.stdio && !f.overHTTP {
		return errors.New("with --stdio=false there is no client to serve; add --http ADDRESS")
	}
	if (f.web.TLSCert != "" || f.web.TLSKey != "") && !f.overHTTP {
		return errors.New("--tls-cert and --tls-key need --http, since stdio has no TLS")
	}
	if len(f.web.Hosts) > 0 && !f.overHTTP {
		return errors.New("--allow-host needs --http, since stdio has no host names")
	}
	return f.override(&r)
}

// override sets in r what the flags ask for. After an error about a flag, the flags after it are not
// set.
func (f serveFlags) override(r *config.Router) error {
	switch f.mode {
	case "":
	case "auto", "search", "direct":
		r.Mode = f.mode
	default:
		return fmt.Errorf("--mode %q is unknown; write auto, search or direct", f.mode)
	}
	switch f.names {
	case "":
	case "prefixed", "bare":
		r.Names = f.names
	default:
		return fmt.Errorf("--names %q is unknown; write prefixed or bare", f.names)
	}
	if f.cluster != "" {
		if err := r.JoinCluster(f.cluster); err != nil {
			return fmt.Errorf("--cluster %w", err)
		}
	}
	return nil
}
