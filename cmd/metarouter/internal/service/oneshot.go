package service

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/audit"
	serverprocess "github.com/mcp-metarouter/metarouter/internal/process"
	"github.com/mcp-metarouter/metarouter/internal/prose"
	"github.com/mcp-metarouter/metarouter/internal/secret"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/supervisor"
)

// encodeTime is how long a search may encode tools in a router for one command, which has no later search that could go on.
const encodeTime = 30 * time.Second

// A Runner makes the routers of a command.
type Runner struct {
	Files   *configfile.Source
	Version string
	Debug   bool // --debug

	Quiet    bool // note no problems of the configuration
	Observed bool // record calls in the access log and in traces, as serve does
	Secrets  bool // read the secrets to which "http" refers, as serve --http does

	base *serverprocess.Base // nil before Settle
	lent *sync.Map           // nil before Settle; variables in which clients differ -> values for entries that can't do without; servers do not inherit them
}

// Guard returns the command line by which this program is the process guard, nil if its path is not known.
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

// Options returns the options of a router for which this program is the process guard, and the shell
// that npx reports to, if its path is known.
func (r *Runner) Options(log *zap.Logger) adapter.Options {
	exe, _ := os.Executable()
	return adapter.Options{DataDir: r.Files.Data, Version: r.Version, Log: log, Guard: r.Guard(), Reporter: exe}
}

// Settle makes the environment of this process the one in which servers run, which depends less on the process that has started
// this one if clients share them. It returns the configuration as it is there: variables that this process lacks are the login shell's.
func (r *Runner) Settle(ctx context.Context, c config.Config, areShared bool) config.Config {
	r.base, r.lent = serverprocess.Settle(ctx, r.Files.Data, areShared), new(sync.Map)
	if areShared { // c has what is left out
		c = c.With(secret.LookupEnv)
		r.lend(c, func(name string) (string, bool) { value, ok := r.base.Left[name]; return value, ok })
	}
	return r.Complete(c)
}

// lookup returns the value of a variable for the router's own entries.
func (r *Runner) lookup(name string) (value string, ok bool) {
	if lent, ok := r.lent.Load(name); ok {
		return lent.(string), true
	}
	return secret.LookupEnv(name)
}

// lend gives this process variables that a server of the configuration lacks to start, and reports whether there are some.
func (r *Runner) lend(c config.Config, theirs func(name string) (value string, ok bool)) (needed bool) {
	for _, s := range c.Servers {
		for _, name := range s.Variables {
			value, ok := theirs(name)
			if _, has := r.lookup(name); !ok || has || s.Misconfigured == "" {
				continue
			}
			if needed = true; serverprocess.OfClients(name) {
				r.lent.Store(name, value)
			} else {
				os.Setenv(name, value)
			}
		}
	}
	return needed
}

// Complete is Settle for a configuration that was read later.
func (r *Runner) Complete(c config.Config) config.Config {
	found := false
	for _, s := range c.Servers {
		for _, name := range slices.Concat(s.Variables, s.InheritEnv) {
			_, set := secret.LookupEnv(name)
			if value, ok := r.base.Lookup(name); ok && !set {
				os.Setenv(name, value)
			}
			_, has := r.lookup(name)
			found = found || has && !set
		}
	}
	if found {
		return c.With(r.lookup)
	}
	return c
}

// Run runs do with a router of the configuration.
func (r *Runner) Run(ctx context.Context, c config.Config, do func(context.Context, *adapter.Router) error) error {
	log, err := r.Files.Console.Logger(zapcore.DPanicLevel, nil) // the command itself reports failures
	if err != nil {
		return err
	}
	if c = r.Settle(ctx, c, false); r.Secrets {
		c = supervisor.WithSecrets(ctx, c, r.Guard(), log)
	}
	if !r.Quiet {
		configfile.NoteErrors(r.Files.Console, c)
	}
	o := r.Options(log)
	o.OnDemand, o.EncodeTime = true, encodeTime
	var mask func(string) string
	if r.Observed {
		if err := configfile.CheckAudit(c); err != nil { // no call may run without its log
			return configfile.InConfig(c, err)
		}
		all, err := openObservers(c, r.Version, log)
		if err != nil {
			return configfile.InConfig(c, err)
		}
		defer all.close()
		all.observeRouter(&o)
		mask = all.mask.Text
	}
	o.Audit = func(e audit.Event) { configfile.RecordAudit(r.Files, c, e, mask) }
	err = runRouter(ctx, adapter.New(c, o), nil, do)
	if ctx.Err() != nil {
		return console.Interrupted
	}
	return err
}

// tally sums the servers up in a line, and counts those that do not work.
func tally(all []status.Server) (line string, failed int) {
	up, starting, wanted, tools := 0, 0, 0, 0
	for _, s := range all {
		tools += s.Tools
		switch s.State {
		case status.Ready, status.Idle:
			up++
		case status.Starting:
			starting++
		case status.Disabled, status.Self:
			continue
		default:
			failed++
		}
		wanted++
	}
	parts := []string{fmt.Sprintf("%d of %s ready", up, prose.Count(wanted, "server")), prose.Count(tools, "tool")}
	if starting > 0 {
		parts = append(parts, fmt.Sprintf("%d starting", starting))
	}
	if failed > 0 {
		parts = append(parts, fmt.Sprintf("%d not working", failed))
	}
	return strings.Join(parts, ", "), failed
}

// lineOf returns the line of one moment: it sums the servers up, says how long it has taken since began, and names
// those that are starting, with how long and what each waits for.
func lineOf(all []status.Server, began, now time.Time) string {
	sum, _ := tally(all)
	line, before := sum+", "+console.Elapsed(now.Sub(began)), ": "
	for _, s := range all {
		if s.State == status.Starting {
			line, before = line+before+s.Name+" "+console.Elapsed(now.Sub(s.Since)), ", "
			if s.Doing != "" {
				line += " (" + s.Doing + ")"
			}
		}
	}
	return line
}

// ShowServers runs wait, and shows meanwhile how the router's servers start.
func ShowServers(out *console.Console, r interface{ Servers() []status.Server }, wait func()) {
	began := time.Now()
	out.Progress(wait, func(now time.Time) string { return lineOf(r.Servers(), began, now) })
}

// showStart shows the servers until all have started or failed, and then sums them up in a
// line.
func showStart(ctx context.Context, out *console.Console, r *adapter.Router) {
	ShowServers(out, r, func() { r.Started(ctx) })
	if ctx.Err() == nil {
		line, failed := tally(r.Servers())
		if failed > 0 {
			line += "; 'metarouter doctor' says what to do"
		}
		out.Note("%s", line)
	}
}
