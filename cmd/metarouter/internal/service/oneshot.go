package service

import (
	"context"
	"os"
	"slices"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/internal/process"
	"github.com/mcp-metarouter/metarouter/internal/secret"
)

// A Runner makes the routers of a command.
type Runner struct {
	Files   *configfile.Source
	Version string
	Debug   bool // --debug

	Quiet    bool // note no problems of the configuration
	Observed bool // record calls in the access log and in traces, as serve does

	base *process.Base // nil before Settle
}

// Guard returns the command line by which this program is the process guard, nil if its
// path is not known.
func (r *Runner) Guard() []string {
	exe, err := os.Executable()
	switch {
	case err != nil:
		return nil
	case r.Debug:
		return []string{exe, "guard", "--debug"}
	}
	return []string{exe, "guard"}
}

// Options returns the options of a router for which this program is the process
// guard, and the shell that npx reports to.
func (r *Runner) Options(log *zap.Logger) adapter.Options {
	o := adapter.Options{DataDir: r.Files.Data, Version: r.Version, Log: log, Guard: r.Guard()}
	if exe, err := os.Executable(); err == nil {
		o.Reporter = exe
	}
	return o
}

// Settle makes the environment of this process the one in which servers run, and returns the configuration as it is there:
// variables that this process lacks are the login shell's.
func (r *Runner) Settle(ctx context.Context, c config.Config) config.Config {
	r.base = process.Settle(ctx, r.Files.Data)
	return r.Complete(c)
}

// Shell returns the login shell's value of a variable, once Settle has been called.
func (r *Runner) Shell(name string) (value string, ok bool) {
	if r.base == nil {
		return "", false
	}
	return r.base.Lookup(name)
}

// Complete is Settle for a configuration that was read later.
func (r *Runner) Complete(c config.Config) config.Config {
	found := false
	for _, s := range c.Servers {
		for _, name := range slices.Concat(s.Variables, s.InheritEnv) {
			value, ok := r.Shell(name)
			if _, set := secret.LookupEnv(name); ok && !set {
				os.Setenv(name, value)
				found = true
			}
		}
	}
	if found {
		return c.With(secret.LookupEnv)
	}
	return c
}

// Run runs do with a router of the configuration.
func (r *Runner) Run(ctx context.Context, c config.Config, do func(context.Context, *adapter.Router) error) error {
	log, err := r.Files.Console.Logger(zapcore.DPanicLevel) // the command itself reports failures
	if err != nil {
		return err
	}
	c = r.Settle(ctx, c)
	if !r.Quiet {
		configfile.NoteErrors(r.Files.Console, c)
	}
	o := r.Options(log)
	o.OnDemand = true
	o.Audit = func(e audit.Event) { r.Files.Record(e) }
	if r.Observed {
		observers, err := OpenObservers(c, r.Version, "", log)
		if err != nil {
			return configfile.InConfig(c, err)
		}
		defer observers.Close()
		observers.ObserveRouter(&o)
	}
	err = RunRouter(ctx, adapter.New(c, o), nil, do)
	if ctx.Err() != nil {
		return console.Interrupted
	}
	return err
}
