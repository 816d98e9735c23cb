// Package oneshot runs a router in the process of a command, for that command alone. It starts only
// the servers that are needed, and stops them when the command is done.
package oneshot

import (
	"context"
	"fmt"
	"os"
	"strings"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/progress"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/service"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/terminal"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

// A Runner makes the routers of a command.
type Runner struct {
	Files   *configfile.Source
	Version string
	Debug   bool // --debug
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

// Run runs do with a router of the configuration.
func (r *Runner) Run(ctx context.Context, c config.Config, do func(context.Context, *adapter.Parts) error) error {
	return r.run(ctx, c, false, do)
}

// RunObserved is Run for a command that calls tools: the router records the calls in the access log
// and in traces, as serve does.
func (r *Runner) RunObserved(ctx context.Context, c config.Config, do func(context.Context, *adapter.Parts) error) error {
	return r.run(ctx, c, true, do)
}

func (r *Runner) run(ctx context.Context, c config.Config, observed bool, do func(context.Context, *adapter.Parts) error) error {
	log, err := r.Files.Console.Logger(zapcore.DPanicLevel) // the command itself reports what failed
	if err != nil {
		return err
	}
	configfile.NoteErrors(r.Files.Console, c)
	o := r.Options(log)
	o.OnDemand = true
	o.Audit = func(e audit.Event) { r.Files.Record(e) }
	if observed {
		observers, err := service.OpenObservers(c, r.Version, r.Files.Data, false, log)
		if err != nil {
			return configfile.InConfig(c, err)
		}
		defer observers.Close()
		observers.ObserveRouter(&o)
	}
	err = service.RunRouter(ctx, adapter.New(c, o), nil, do)
	if ctx.Err() != nil {
		return exit.Interrupted
	}
	return err
}

// A Fleet is the servers of a router, or those that a profile allows.
type Fleet interface {
	Servers() []adapter.ServerInfo
	Settled(ctx context.Context) error
	Await(ctx context.Context, server string) error
}

// AwaitTools waits until the tools of all servers are known or their servers have
// failed, and names the failed servers on stderr, in one line. Another line says if servers of
// other nodes may be missing.
func AwaitTools(ctx context.Context, out *console.Console, r Fleet) error {
	var missing error
	progress.ShowServers(out.Err, r, func() { missing = r.Settled(ctx) })
	if ctx.Err() != nil {
		return exit.Interrupted
	}
	NoteMissing(out, missing)
	var without []adapter.ServerInfo
	for _, s := range r.Servers() {
		if s.LastError != "" && s.Tools == 0 && s.State != status.Disabled && s.State != status.Self {
			without = append(without, s)
		}
	}
	switch len(without) {
	case 0:
	case 1:
		s := without[0]
		out.Note("metarouter: server %q %s: %s; 'metarouter servers %s' says more", s.Name, s.Verb(), Reason(s.LastError), s.Name)
	default:
		const most = 10 // servers that the line names
		var names []string
		for _, s := range without[:min(len(without), most)] {
			names = append(names, s.Name)
		}
		if more := len(without) - len(names); more > 0 {
			names = append(names, fmt.Sprintf("%d more", more))
		}
		out.Note("metarouter: %d servers do not work, so their tools are missing: %s; 'metarouter doctor' says why and what to do", len(without), strings.Join(names, ", "))
	}
	return nil
}

// NoteMissing says on stderr why servers of other nodes may be missing; nil if all are known.
func NoteMissing(out *console.Console, why error) {
	if why != nil {
		out.Note("metarouter: servers of other nodes may be missing: %s; 'metarouter doctor' says more", Reason(why.Error()))
	}
}

// Reason returns as much of an error as a line of other things has room for.
func Reason(why string) string { return terminal.Cut(plain.Line(why), 120) }

// AwaitServer starts the server and waits until it is ready.
func AwaitServer(ctx context.Context, out *console.Console, r Fleet, name string) (err error) {
	progress.ShowServers(out.Err, r, func() { err = r.Await(ctx, name) })
	return err
}
