package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/progress"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/why"
	"github.com/mcp-metarouter/metarouter/server"
)

func newWhyCommand(env *environment) *cobra.Command {
	var task string
	cmd := newCommand("why TOOL", "Say why a tool is offered or not, and where it ranks",
		`  metarouter why files:read_file
  metarouter why unit_convert --for "convert 5 km to miles"`,
		arguments(1, 1, "name one tool; 'metarouter tools' lists all"), func(ctx context.Context, args []string) error { return runWhy(ctx, env, args[0], task) })
	addJSONFlag(cmd, env.Console)
	addNamedProfileFlag(env, cmd, "Say whether clients of the `profile` of this name are offered the tool. (default clients that see everything)")
	cmd.Flags().StringVar(&task, "for", "", "Say also where the tool ranks for this `task`, and why. By default it is not ranked.")
	return cmd
}

func runWhy(ctx context.Context, env *environment, tool, task string) error {
	c, done, err := loadOrAsk(ctx, env, false)
	if err != nil || done {
		return err
	}
	if err := checkProfile(c, env.profile); err != nil {
		return err
	}
	return withRouter(ctx, env, c, func(ctx context.Context, r *adapter.Parts) error {
		q := why.Question{Config: c, Tool: tool, Task: task, Wait: func(wait func()) { progress.ShowServers(env.Err, r, wait) }}
		if env.profile != nil {
			q.Profile = *env.profile
		}
		if env.running != nil {
			q.Mode = env.running.mode
		}
		answer, err := why.Ask(ctx, r, q)
		if ctx.Err() != nil {
			return exit.Interrupted
		} else if _, ok := errors.AsType[*server.NameError](err); ok {
			return exit.Usage(err)
		} else if err != nil {
			return err
		}
		if env.JSON {
			err = env.PrintJSON(answer)
		} else {
			err = printReasons(env, answer)
		}
		if err == nil && !answer.Offered {
			err = &exit.Error{Code: exit.NoTool}
		}
		return err
	})
}

func printReasons(env *environment, a why.Answer) error {
	verdict := "is not offered"
	if a.Offered {
		verdict = "is offered"
	}
	env.Say("%s %s.", a.Tool, verdict)
	for _, reason := range a.Reasons {
		env.SayBroken("  - ", reason)
	}
	return nil
}
