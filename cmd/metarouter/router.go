package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/progress"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/service"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/terminal"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/internal/plain"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/supervisor"
)

// loadConfig finds and reads the configuration, and makes sure that it is trusted.
func loadConfig(ctx context.Context, env *environment) (config.Config, error) {
	if env.running != nil {
		return env.running.router.Config(), nil
	}
	c, named, err := locateConfig(env)
	if err == nil && !named {
		c, err = requireTrust(ctx, env, c)
	}
	return c, err
}

// loadOrAsk is loadConfig for a command that a running router can carry out. While an edit
// waits for approval or the files have a mistake in their syntax, the running router carries
// it out with the text before that, and done is true; with all, every such router does.
func loadOrAsk(ctx context.Context, env *environment, all bool) (c config.Config, done bool, err error) {
	if env.running != nil {
		noteEdit(env)
		return env.running.router.Config(), false, nil
	}
	c, named, err := locateConfig(env)
	if isMistake(err) {
		if done, asked := askRunningRouter(ctx, env, c, all); done {
			return c, true, asked
		}
	}
	if err != nil || named {
		return c, false, err
	}
	usable, distrust := requireTrust(ctx, env, c)
	if distrust == nil || errors.Is(distrust, errInterrupted) {
		return usable, false, distrust
	}
	if done, err := askRunningRouter(ctx, env, c, all); done {
		return c, true, err
	}
	return c, false, distrust
}

// locateConfig finds and reads the configuration. named is false for a .mcp.json that
// --config does not name, which must not be used unless it is trusted. Until then c is no
// more than its text. With a mistake in the syntax, c has the paths of the files alone.
func locateConfig(env *environment) (c config.Config, named bool, err error) {
	if os.Getenv(supervisor.DepthVariable) != "" {
		return c, false, usage(errors.New("this process was started by a metarouter, and a router inside a router would start itself without end; take the entry out of the configuration"))
	}
	paths, named, err := findConfig(env)
	if err == nil {
		c, _, err = readConfig(env, paths, named)
	}
	if isMistake(err) {
		for _, path := range paths {
			if abs, failed := filepath.Abs(path); failed == nil {
				c.Files = append(c.Files, abs)
			}
		}
	}
	return c, named, usage(unreadable(err))
}

// isMistake reports whether err is a mistake in the text of a configuration.
func isMistake(err error) bool {
	_, ok := errors.AsType[config.Problem](err)
	return ok
}

// readConfig reads the configuration. If it was found and not named, and is not trusted, c
// is no more than the text of the files.
func readConfig(env *environment, paths []string, named bool) (c config.Config, usable bool, err error) {
	if named {
		c, err = config.Load(paths...)
		return c, err == nil, err
	}
	if c, err = config.LoadText(paths...); err != nil {
		return c, false, err
	}
	if usable = c.Trusted(env.data) == nil; usable { // requireTrust returns the error
		c = c.Expand()
	}
	return c, usable, nil
}

// unreadable says what to do if err says that a configuration file can't be read.
func unreadable(err error) error {
	path, ok := errors.AsType[*fs.PathError](err)
	if !ok {
		return err
	}
	if info, failed := os.Stat(path.Path); failed == nil && info.IsDir() {
		return fmt.Errorf("%s is a folder; name the file in it, such as %s", path.Path, filepath.Join(path.Path, ".mcp.json"))
	}
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no configuration file %s; correct the path, or create the file with: metarouter init --write --config %s", path.Path, clients.Word(path.Path))
	}
	return err
}

// inFlag says that err is about the file that a flag names.
func inFlag(flag string, err error) error {
	if path, ok := errors.AsType[*fs.PathError](err); ok && errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: there is no file %q", flag, path.Path)
	}
	return fmt.Errorf("%s: %w", flag, err)
}

// inConfig returns the error of a setting in the files of the configuration.
func inConfig(c config.Config, err error) error {
	return usage(fmt.Errorf("%s: %w", strings.Join(c.Files, ", "), err))
}

// routerOptions returns the options of a router for which this program is the process
// guard, and the shell that npx reports to.
func routerOptions(env *environment, log *zap.Logger) adapter.Options {
	o := adapter.Options{DataDir: env.data, Version: version, Log: log, Guard: guardCommand(env), GuardProcess: env.guard}
	if exe, err := os.Executable(); err == nil {
		o.Reporter = exe
	}
	return o
}

// guardCommand returns the command line by which this program is the process guard, nil if its
// path is not known.
func guardCommand(env *environment) []string {
	exe, err := os.Executable()
	switch {
	case err != nil:
		return nil
	case env.debug:
		return []string{exe, "guard", "--debug"}
	}
	return []string{exe, "guard"}
}

// withRouter has the running router of the same files carry out the command. If none
// runs, it runs do with a router of this process, as withOwnRouter does.
func withRouter(ctx context.Context, env *environment, c config.Config, do func(context.Context, *adapter.Parts) error) error {
	if env.running != nil {
		return do(ctx, env.running.router)
	}
	if done, err := askRunningRouter(ctx, env, c, false); done {
		return err
	}
	return withOwnRouter(ctx, env, c, do)
}

// withRouterForCalls is withRouter for a command that calls tools: a router of this
// process records the calls in the access log and in traces, as serve does.
func withRouterForCalls(ctx context.Context, env *environment, c config.Config, do func(context.Context, *adapter.Parts) error) error {
	if env.running != nil {
		return do(ctx, env.running.router)
	}
	if done, err := askRunningRouter(ctx, env, c, false); done {
		return err
	}
	return runOwnRouter(ctx, env, c, true, do)
}

// withOwnRouter runs do with a router that starts only the servers that are needed, and
// stops them when do returns.
func withOwnRouter(ctx context.Context, env *environment, c config.Config, do func(context.Context, *adapter.Parts) error) error {
	return runOwnRouter(ctx, env, c, false, do)
}

func runOwnRouter(ctx context.Context, env *environment, c config.Config, observed bool, do func(context.Context, *adapter.Parts) error) error {
	log, err := env.newLogger(zapcore.DPanicLevel) // the command itself reports what failed
	if err != nil {
		return err
	}
	noteErrors(env, c)
	o := routerOptions(env, log)
	o.OnDemand = true
	o.Audit = func(e audit.Event) { recordCommand(env, e) }
	if observed {
		observers, err := service.OpenObservers(c, version, env.data, false, log)
		if err != nil {
			return inConfig(c, err)
		}
		defer observers.Close()
		observers.ObserveRouter(&o)
	}
	err = service.RunRouter(ctx, adapter.New(c, o), nil, do)
	if ctx.Err() != nil {
		return errInterrupted
	}
	return err
}

// noteErrors says on stderr what is wrong with the configuration, in few lines.
func noteErrors(env *environment, c config.Config) {
	const most = 3
	wrong := errorsOf(c) // 'metarouter check' shows the warnings too
	if len(wrong) > most {
		env.note("%d errors in %s: run 'metarouter check'", len(wrong), strings.Join(c.Files, ", "))
		return
	}
	for _, p := range wrong {
		env.note("%s", p.Error())
	}
}

// A fleet is the servers of a router, or those that a profile allows.
type fleet interface {
	Servers() []adapter.ServerInfo
	Settled(ctx context.Context) error
	Await(ctx context.Context, server string) error
}

// awaitTools waits until the tools of all servers are known or their servers have
// failed, and names the failed servers on stderr, in one line. Another line says if servers of
// other nodes may be missing.
func awaitTools(ctx context.Context, env *environment, r fleet) error {
	var missing error
	progress.ShowServers(env.stderr, r, func() { missing = r.Settled(ctx) })
	if ctx.Err() != nil {
		return errInterrupted
	}
	noteMissing(env, missing)
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
		env.note("metarouter: server %q %s: %s; 'metarouter servers %s' says more", s.Name, s.Verb(), terminal.Cut(plain.Line(s.LastError), maxReason), s.Name)
	default:
		var names []string
		for _, s := range without[:min(len(without), maxNamed)] {
			names = append(names, s.Name)
		}
		if more := len(without) - len(names); more > 0 {
			names = append(names, fmt.Sprintf("%d more", more))
		}
		env.note("metarouter: %d servers do not work, so their tools are missing: %s; 'metarouter doctor' says why and what to do", len(without), strings.Join(names, ", "))
	}
	return nil
}

// noteMissing says on stderr why servers of other nodes may be missing; nil if all are known.
func noteMissing(env *environment, why error) {
	if why != nil {
		env.note("metarouter: servers of other nodes may be missing: %s; 'metarouter doctor' says more", terminal.Cut(plain.Line(why.Error()), maxReason))
	}
}

const (
	maxReason = 120 // characters of an error that a line of other things names
	maxNamed  = 10  // servers that such a line names
)

// awaitServer starts the server and waits until it is ready.
func awaitServer(ctx context.Context, env *environment, r fleet, name string) (err error) {
	progress.ShowServers(env.stderr, r, func() { err = r.Await(ctx, name) })
	return err
}
