package main

import (
	"context"
	"errors"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
	"github.com/mcp-metarouter/metarouter/config"
)

// loadConfig finds and reads the configuration, and makes sure that it is trusted.
func loadConfig(ctx context.Context, env *environment) (config.Config, error) {
	if env.running != nil {
		return env.running.router.Config(), nil
	}
	return env.files.Load(ctx)
}

// loadOrAsk is loadConfig for a command that a running router can carry out. While an edit
// waits for approval or the files have a mistake in their syntax, the running router carries
// it out with the text before that, and done is true; with all, every such router does.
func loadOrAsk(ctx context.Context, env *environment, all bool) (c config.Config, done bool, err error) {
	if env.running != nil {
		noteEdit(env)
		return env.running.router.Config(), false, nil
	}
	c, named, err := env.files.Locate()
	if configfile.IsMistake(err) {
		if done, asked := askRunningRouter(ctx, env, c, all); done {
			return c, true, asked
		}
	}
	if err != nil || named {
		return c, false, err
	}
	usable, distrust := env.files.RequireTrust(ctx, c)
	if distrust == nil || errors.Is(distrust, exit.Interrupted) {
		return usable, false, distrust
	}
	if done, err := askRunningRouter(ctx, env, c, all); done {
		return c, true, err
	}
	return c, false, distrust
}

// withRouter has the running router of the same files carry out the command. If none
// runs, it runs do with a router of this process, as [oneshot.Runner.Run] does.
func withRouter(ctx context.Context, env *environment, c config.Config, do func(context.Context, *adapter.Parts) error) error {
	if env.running != nil {
		return do(ctx, env.running.router)
	}
	if done, err := askRunningRouter(ctx, env, c, false); done {
		return err
	}
	return env.local.Run(ctx, c, do)
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
	return env.local.RunObserved(ctx, c, do)
}
