package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/term"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/terminal"
	"github.com/mcp-metarouter/metarouter/supervisor"
)

// An app is what all subcommands share: the streams and the common flags.
type app struct {
	stdin          io.Reader
	stdout, stderr io.Writer

	args    []string // of the command line, after the program's name
	streams [3]any   // stdin, stdout and stderr as this process was started with them

	configs    []string
	data       string
	logLevel   string
	json       bool
	standalone bool // ask no running router, and share none
	calls      bool // the command calls tools, which is to be told

	input  string          // what --args gave, named or had read
	router *adapter.Router // the running one that carries out the command for another process; else nil
	mode   string          // in which that shows its tools
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

// load finds and reads the configuration, and makes sure that it may be used.
func (a *app) load(ctx context.Context) (config.Config, error) {
	if a.router != nil {
		return a.router.Config(), nil
	}
	c, named, err := a.locate()
	if err == nil && !named {
		err = a.requireTrust(ctx, c)
	}
	return c, err
}

// locate finds and reads the configuration. named is false for a .mcp.json that
// was merely found, which must not be used unless it is trusted.
func (a *app) locate() (c config.Config, named bool, err error) {
	if os.Getenv(supervisor.DepthVariable) != "" {
		return c, false, usage(errors.New("this process was started by a metarouter, and a router inside a router would start itself without end; take the entry out of the configuration"))
	}
	paths, named, err := config.Find(a.configs)
	if err == nil {
		c, err = config.Load(paths...)
	}
	return c, named, usage(err)
}

// options returns the options of a router with this program as its guard, and as
// what npx reports to.
func (a *app) options(log *zap.Logger) adapter.Options {
	o := adapter.Options{DataDir: a.data, Version: version, Log: log}
	if exe, err := os.Executable(); err == nil {
		o.Guard, o.Reporter = []string{exe, "guard"}, exe
	}
	return o
}

// with has the running router of the same files carry out the command. Where there
// is none, it runs do with a router that starts only the servers that are needed,
// and stops them when do returns.
func (a *app) with(ctx context.Context, c config.Config, do func(context.Context, *adapter.Router) error) error {
	if a.router != nil {
		return do(ctx, a.router)
	}
	if done, err := a.ask(ctx, c, false); done {
		return err
	}
	return a.alone(ctx, c, do)
}

// alone is with where no running router is to be asked, or none was there.
func (a *app) alone(ctx context.Context, c config.Config, do func(context.Context, *adapter.Router) error) error {
	log, err := a.log(zapcore.DPanicLevel) // the command itself says what went wrong
	if err != nil {
		return err
	}
	for _, p := range c.Problems {
		fmt.Fprintln(a.stderr, p.Error())
	}
	o := a.options(log)
	o.OnDemand = true
	if a.calls {
		watch, err := openWatch(c, log)
		if err != nil {
			return err
		}
		defer watch.close()
		watch.observe(&o)
	}
	err = a.running(ctx, adapter.New(c, o), nil, do)
	if ctx.Err() != nil {
		return errInterrupted
	}
	return err
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
// failed, and says on stderr which have.
func (a *app) settle(ctx context.Context, r *adapter.Router) error {
	a.waiting(r, func() { r.Settled(ctx) })
	if ctx.Err() != nil {
		return errInterrupted
	}
	for _, s := range r.Servers() {
		if s.LastError != "" && s.Tools == 0 {
			fmt.Fprintf(a.stderr, "metarouter: server %q is %s: %s\n", s.Name, s.State, s.LastError)
		}
	}
	return nil
}

// table prints what write writes in aligned columns.
func (a *app) table(write func(*tabwriter.Writer)) error {
	w := tabwriter.NewWriter(a.stdout, 0, 4, 2, ' ', 0)
	write(w)
	return w.Flush()
}

func isTerminal(stream any) bool {
	if _, ok := stream.(*terminal.Screen); ok {
		return true
	}
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}
