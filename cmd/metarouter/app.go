package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/term"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/supervisor"
)

// An app is what all subcommands share: the streams and the common flags.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer

	configs  []string
	data     string
	logLevel string
	json     bool
}

func defaultData() string {
	folder, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(folder, "metarouter")
}

// jsonFlag gives cmd the flag --json.
func (a *app) jsonFlag(cmd *cobra.Command) *cobra.Command {
	cmd.Flags().BoolVar(&a.json, "json", false, "print JSON")
	return cmd
}

// printJSON prints v on stdout, with < and > as they are.
func (a *app) printJSON(v any) error {
	e := json.NewEncoder(a.stdout)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// log returns a logger to stderr, of the level asked for or the default.
func (a *app) log(level zapcore.Level) (*zap.Logger, error) {
	if a.logLevel != "" {
		var err error
		if level, err = zapcore.ParseLevel(a.logLevel); err != nil {
			return nil, usage(fmt.Errorf("--log-level: %w; write debug, info, warn or error", err))
		}
	}
	encoding := zap.NewDevelopmentEncoderConfig()
	encoding.EncodeTime = zapcore.TimeEncoderOfLayout(time.TimeOnly + ".000")
	core := zapcore.NewCore(zapcore.NewConsoleEncoder(encoding), zapcore.Lock(zapcore.AddSync(a.stderr)), level)
	return zap.New(core), nil
}

// load finds and reads the configuration.
func (a *app) load() (config.Config, error) {
	c, _, err := a.locate()
	return c, err
}

// locate finds and reads the configuration. named is false for a .mcp.json that
// was merely found; it is trusted as it is.
func (a *app) locate() (c config.Config, named bool, err error) {
	if os.Getenv(supervisor.DepthVariable) != "" {
		return c, false, usage(errors.New("this process was started by a metarouter, and a router inside a router would start itself without end; take the entry out of the configuration"))
	}
	paths, named, err := config.Find(a.configs)
	if err != nil {
		return c, false, usage(err)
	}
	if c, err = config.Load(paths...); err != nil {
		return c, false, usage(err)
	}
	if !named {
		err = a.requireTrust(c, paths[0])
	}
	return c, named, err
}

// requireTrust makes sure that a file that was merely found may be used.
func (a *app) requireTrust(c config.Config, path string) error {
	trusted, err := config.Trusted(path, a.data)
	if err != nil {
		return usage(err)
	}
	if trusted {
		return nil
	}
	if !isTerminal(a.stdin) || !isTerminal(a.stderr) {
		return usage(fmt.Errorf("%s is not trusted: it was found in this folder, and would run commands; look at it, then approve it with 'metarouter trust', or name it with --config", path))
	}
	fmt.Fprintf(a.stderr, "%s was found in this folder. It would run:\n%sUse it? [y/N] ", path, commands(c))
	var answer string
	fmt.Fscanln(a.stdin, &answer)
	if !strings.HasPrefix(strings.ToLower(answer), "y") {
		return usage(errors.New("not trusted, nothing was started"))
	}
	return config.Trust(path, a.data)
}

// commands lists what the servers of c run, a line each.
func commands(c config.Config) string {
	var b strings.Builder
	for _, s := range c.Servers {
		what := s.URL
		if s.Command != "" {
			what = strings.Join(append([]string{s.Command}, s.Args...), " ")
		}
		fmt.Fprintf(&b, "  %-20s %s\n", s.Name, what)
	}
	return b.String()
}

// options returns the options of a router with this program as its guard.
func (a *app) options(log *zap.Logger) adapter.Options {
	o := adapter.Options{DataDir: a.data, Version: version, Log: log}
	if exe, err := os.Executable(); err == nil {
		o.Guard = []string{exe, "guard"}
	}
	return o
}

// with runs do with a router that starts only the servers that are needed, and
// stops them when do returns.
func (a *app) with(ctx context.Context, c config.Config, do func(context.Context, *adapter.Router) error) error {
	return a.briefly(ctx, c, true, do)
}

// briefly runs do with a router; onDemand is as in [adapter.Options].
func (a *app) briefly(ctx context.Context, c config.Config, onDemand bool, do func(context.Context, *adapter.Router) error) error {
	log, err := a.log(zapcore.DPanicLevel) // the command itself says what went wrong
	if err != nil {
		return err
	}
	for _, p := range c.Problems {
		fmt.Fprintln(a.stderr, p.Error())
	}
	o := a.options(log)
	o.OnDemand = onDemand
	return a.running(ctx, adapter.New(c, o), nil, do)
}

// running runs do while the router runs, and returns when nothing of it is left.
func (a *app) running(ctx context.Context, r *adapter.Router, edits <-chan config.Config, do func(context.Context, *adapter.Router) error) error {
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

// settle waits until the tools of all servers are known or their servers have
// failed.
func (a *app) settle(ctx context.Context, r *adapter.Router) {
	a.waiting(r, func() { r.Settled(ctx) })
}

// waiting runs wait. On a terminal it says meanwhile what is being waited for.
func (a *app) waiting(r *adapter.Router, wait func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		wait()
	}()
	if !isTerminal(a.stderr) {
		<-done
		return
	}
	began := time.Now()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-done:
			fmt.Fprint(a.stderr, "\r\x1b[K")
			return
		case <-tick.C:
			fmt.Fprintf(a.stderr, "\r\x1b[K%s", progress(r.Servers(), time.Since(began)))
		}
	}
}

// progress says in a line which servers are starting and how many tools are
// known.
func progress(servers []adapter.ServerInfo, waited time.Duration) string {
	var starting []string
	tools := 0
	for _, s := range servers {
		tools += s.Tools
		if s.State == supervisor.Starting {
			starting = append(starting, s.Name)
		}
	}
	line := fmt.Sprintf("%3.0f s  %d tools so far; starting: %s", waited.Seconds(), tools, strings.Join(starting, ", "))
	return line[:min(len(line), 100)]
}

func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
