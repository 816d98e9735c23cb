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
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/progress"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/service"
	"github.com/mcp-metarouter/metarouter/config"
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

// locateConfig finds and reads the configuration. named is false for a .mcp.json that
// --config does not name, which must not be used unless it is trusted. Until then c is no
// more than its text.
func locateConfig(env *environment) (c config.Config, named bool, err error) {
	if os.Getenv(supervisor.DepthVariable) != "" {
		return c, false, usage(errors.New("this process was started by a metarouter, and a router inside a router would start itself without end; take the entry out of the configuration"))
	}
	paths, named, err := config.Find(env.configs)
	if err == nil {
		c, _, err = readConfig(env, paths, named)
	}
	return c, named, usage(unreadable(err))
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
	if usable, _ = c.Trusted(env.data); usable { // requireTrust returns the error
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
		return fmt.Errorf("there is no configuration file %s; correct the path, or create the file with 'metarouter import CLIENT --write'", path.Path)
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
	o := adapter.Options{DataDir: env.data, Version: version, Log: log}
	if exe, err := os.Executable(); err == nil {
		o.Guard, o.Reporter = []string{exe, "guard"}, exe
		if env.debug {
			o.Guard = append(o.Guard, "--debug")
		}
	}
	return o
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
	for _, p := range c.Problems {
		env.note("%s", p.Error())
	}
	o := routerOptions(env, log)
	o.OnDemand = true
	if observed {
		observers, err := service.OpenObservers(c, version, log)
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

// awaitTools waits until the tools of all servers are known or their servers have
// failed, and names the failed servers on stderr.
func awaitTools(ctx context.Context, env *environment, r *adapter.Parts) error {
	progress.ShowServers(env.stderr, r, func() { r.Settled(ctx) })
	if ctx.Err() != nil {
		return errInterrupted
	}
	for _, s := range r.Servers() {
		if s.LastError != "" && s.Tools == 0 {
			env.note("metarouter: server %q %s: %s", s.Name, stateVerb(s.State), s.LastError)
		}
	}
	return nil
}

// stateVerb returns "failed" for a failed server, and "is" and the state for others.
func stateVerb(state status.State) string {
	if state == status.Failed {
		return "failed"
	}
	return "is " + string(state)
}

// awaitServer starts the server and waits until it is ready.
func awaitServer(ctx context.Context, env *environment, r *adapter.Parts, name string) (err error) {
	progress.ShowServers(env.stderr, r, func() { err = r.Await(ctx, name) })
	return err
}
