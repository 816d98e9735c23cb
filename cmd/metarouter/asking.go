package main

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/admin"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/cli"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
)

func newSearchCommand(e *cli.Env) *cobra.Command {
	var o admin.ToolsRequest
	var explain bool
	cmd := newToolCommand(e, "search", cobra.ArbitraryArgs, func(ctx context.Context, args []string) error {
		return cli.Search(ctx, e, strings.Join(args, " "), o, explain)
	})
	addCapabilityFlag(cmd, &o.Capabilities, preferTags)
	cmd.Flags().IntVarP(&o.Limit, "limit", "k", 10, "List at most this `number` of tools.")
	cmd.Flags().BoolVar(&explain, "explain", false, "Show for each tool what its score is made of: words, meaning and others, each as a percentage of the score. By default only the confidence is shown.")
	return cmd
}

func newToolsCommand(e *cli.Env) *cobra.Command {
	var o admin.ToolsRequest
	var server string
	cmd := newToolCommand(e, "tools", arguments(0, 1, "name one server or one tool at most"), func(ctx context.Context, args []string) error {
		if len(args) > 0 {
			o.Name = args[0]
		}
		return cli.Tools(ctx, e, server, o)
	})
	addCapabilityFlag(cmd, &o.Capabilities, "List only tools with this capability `tag`; 'metarouter capabilities' lists the tags. Repeat the flag to list tools that have all of several tags. By default all tools are listed.")
	cmd.Flags().StringVar(&server, "server", "", "List only the tools of this `server`, which is started if it does not run. By default the tools of all servers are listed.")
	cmd.Flags().BoolVar(&o.Changed, "seen", false, "List how the definitions of tools changed since you last looked, and be warned of these changes no more. Changed hints, such as readOnlyHint, count only once 'metarouter trust --hints SERVER' has confirmed them. It starts no server. By default the tools are listed.")
	cmd.MarkFlagsMutuallyExclusive("seen", "capability")
	cmd.MarkFlagsMutuallyExclusive("seen", "profile")
	return cmd
}

func newCapabilitiesCommand(e *cli.Env) *cobra.Command {
	return newToolCommand(e, "capabilities", arguments(0, 1, "name one tag at most"), func(ctx context.Context, args []string) error {
		if len(args) > 0 {
			return cli.Tools(ctx, e, "", admin.ToolsRequest{Capabilities: args, Known: true})
		}
		return cli.Capabilities(ctx, e)
	})
}

func newCallCommand(e *cli.Env) *cobra.Command {
	var raw string
	var o admin.CallRequest
	cmd := newToolCommand(e, "call", arguments(1, -1, "name the tool; 'metarouter tools' lists all"), func(ctx context.Context, args []string) error {
		o.Tool, o.Pairs = args[0], args[1:]
		return cli.Call(ctx, e, o, raw)
	})
	addArgsFlag(cmd, &raw)
	cmd.Flags().BoolVar(&o.Yes, "yes", false, "Agree to the call where a profile asks first. By default you are asked on the terminal; without a terminal the tool is not run.")
	return cmd
}

func newScriptCommand(e *cli.Env) *cobra.Command {
	var input string
	var o admin.ScriptRequest
	cmd := newToolCommand(e, "script", exactly("name one file with a script; - is stdin"), func(ctx context.Context, args []string) error {
		return cli.Script(ctx, e, args[0], o, input)
	})
	cmd.Flags().StringVar(&input, "input", "", "Give the script this `JSON` value as input, or with @FILE that of a file, of 1 MiB at most. By default input is undefined.")
	cmd.Flags().DurationVar(&o.Timeout, "timeout", 0, "Stop the script after this `time`, such as 30s. (default, and the most, \"scripts.timeout\" of the configuration, else 1m)")
	cmd.Flags().BoolVar(&o.Yes, "yes", false, "Let the script call tools that may change or destroy something, and agree to its calls where a profile asks first. By default these calls fail; on a terminal you are asked whether to run the script again with them, if its other calls only read.")
	return cmd
}

func addArgsFlag(cmd *cobra.Command, raw *string) {
	cmd.Flags().StringVar(raw, "args", "", "Pass these arguments to the tool: a `JSON` object, @FILE to read the object from a file, or - to read it from stdin. (default {})")
}

func newRouteCommand(e *cli.Env) *cobra.Command {
	var o admin.RouteRequest
	var raw string
	cmd := newToolCommand(e, "route", arguments(1, -1, `write the task in words, such as "convert 5 km to miles"`), func(ctx context.Context, args []string) error {
		return cli.Route(ctx, e, args, o, raw)
	})
	addArgsFlag(cmd, &raw)
	addCapabilityFlag(cmd, &o.Capabilities, preferTags)
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "Show which tool would be picked, and run nothing. By default the tool runs if that is safe; see --yes.")
	cmd.Flags().BoolVar(&o.Yes, "yes", false, "Run the tool even if it may change or destroy something, if the confidence is below routeThreshold, or if a profile asks first. By default such a tool is named and not run; where a profile asks first, you are asked on the terminal.")
	return cmd
}

func newServersCommand(e *cli.Env) *cobra.Command {
	var watch bool
	cmd := newCommand("servers", arguments(0, 1, "name one server at most"), func(ctx context.Context, args []string) error {
		switch {
		case watch && len(args) > 0:
			return console.Usage(errors.New("--watch shows all servers; leave the name out"))
		case watch:
			return cli.Watch(ctx, e)
		case len(args) > 0:
			return cli.Server(ctx, e, args[0])
		}
		return cli.Servers(ctx, e)
	})
	addJSONFlag(cmd, e.Console)
	addNamedProfileFlag(cmd, e, "Show only the servers that the `profile` of this name allows. (default all servers)")
	cmd.Flags().BoolVar(&watch, "watch", false, "Print a line for each change of a server until Ctrl-C, with --json an object in a line. By default the servers are shown once.")
	return cmd
}

func newRestartCommand(e *cli.Env) *cobra.Command {
	return newCommand("restart", arguments(1, 1, "name one server; 'metarouter servers' lists all"), func(ctx context.Context, args []string) error { return cli.Restart(ctx, e, args[0]) })
}

func newClassifyCommand(e *cli.Env) *cobra.Command {
	return newToolCommand(e, "classify", arguments(1, -1, "write the text to classify"), func(ctx context.Context, args []string) error {
		return cli.Classify(ctx, e, strings.Join(args, " "))
	})
}

func newWhyCommand(e *cli.Env) *cobra.Command {
	var task string
	cmd := newCommand("why", arguments(1, 1, "name one tool; 'metarouter tools' lists all"), func(ctx context.Context, args []string) error { return cli.Why(ctx, e, args[0], task) })
	addJSONFlag(cmd, e.Console)
	addNamedProfileFlag(cmd, e, "Say whether clients of the `profile` of this name are offered the tool. (default clients that see everything)")
	cmd.Flags().StringVar(&task, "for", "", "Say also where the tool ranks for this `task`, and why. By default it is not ranked.")
	return cmd
}

func newDoctorCommand(e *cli.Env) *cobra.Command {
	var pin, write bool
	cmd := newCommand("doctor", noArguments, func(ctx context.Context, _ []string) error { return cli.Doctor(ctx, e, pin, write) })
	addJSONFlag(cmd, e.Console)
	cmd.Flags().BoolVar(&pin, "pin", false, "Show the configuration with the exact versions of npm and PyPI packages that run, so that npx and uvx look none up. By default versions are not looked at.")
	cmd.Flags().BoolVar(&write, "write", false, "With --pin, write the file, and keep a copy of the old one next to it. By default the change is only shown.")
	cmd.MarkFlagsMutuallyExclusive("pin", "json")
	return cmd
}

func newSkillCommand(e *cli.Env) *cobra.Command {
	var o cli.SkillOptions
	cmd := newCommand("skill", noArguments, func(ctx context.Context, _ []string) error { return cli.Skill(ctx, e, o) })
	cmd.Flags().StringSliceVar(&o.Servers, "servers", nil, "Name these `servers` of the configuration, separated by commas, in the skill, and what they are for. By default it names none, and fits any configuration.")
	cmd.Flags().BoolVar(&o.Write, "write", false, "Write it to .claude/skills/metarouter/SKILL.md in this folder, where Claude Code finds it, and keep a copy of a file that is there. By default it is only printed.")
	cmd.Flags().BoolVar(&o.User, "user", false, "Use the skills of your user, in ~/.claude or $CLAUDE_CONFIG_DIR. By default they are those of this folder.")
	return cmd
}

// newToolCommand returns a command about tools, with --json and --profile.
func newToolCommand(e *cli.Env, path string, args cobra.PositionalArgs, run func(ctx context.Context, args []string) error) *cobra.Command {
	cmd := newCommand(path, args, run)
	addJSONFlag(cmd, e.Console)
	addNamedProfileFlag(cmd, e, "Show and use only what the `profile` of this name allows, as its clients do; \"\" is everything. (default the profile \"default\" if there is one, else everything)")
	return cmd
}

// addNamedProfileFlag gives cmd the flag --profile with a meaning of its own.
func addNamedProfileFlag(cmd *cobra.Command, e *cli.Env, usage string) {
	cmd.Flags().Func("profile", usage, func(name string) error { e.Files.Profile = &name; return nil })
}

func newDashboardCommand(e *cli.Env) *cobra.Command {
	var address string
	cmd := newCommand("dashboard", noArguments, func(ctx context.Context, _ []string) error { return cli.Dashboard(ctx, e, address) })
	cmd.Flags().StringVar(&address, "addr", "127.0.0.1:0", "Serve the page at this loopback `address`. Port 0 takes any free port.")
	return cmd
}
