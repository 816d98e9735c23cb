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
	cmd := newCommand("search QUERY", "Find tools by words or by capability",
		`  metarouter search "take a screenshot of a page"
  metarouter search "convert" -c math -k 3`,
		cobra.ArbitraryArgs, func(ctx context.Context, args []string) error {
			return cli.Search(ctx, e, strings.Join(args, " "), o, explain)
		})
	addJSONFlag(cmd, e.Console)
	addProfileFlag(cmd, e)
	addCapabilityFlag(cmd, &o.Capabilities, preferTags)
	cmd.Flags().IntVarP(&o.Limit, "limit", "k", 10, "List at most this `number` of tools.")
	cmd.Flags().BoolVar(&explain, "explain", false, "Show for each tool what its score is made of: words, meaning and others, each as a percentage of the score. By default only the confidence is shown.")
	return cmd
}

func newToolsCommand(e *cli.Env) *cobra.Command {
	var o admin.ToolsRequest
	var server string
	cmd := newCommand("tools [SERVER | TOOL]", "List the tools of all servers or of one, or describe one tool",
		`  metarouter tools
  metarouter tools playwright -c screenshot
  metarouter tools playwright:browser_navigate`,
		arguments(0, 1, "name one server or one tool at most"), func(ctx context.Context, args []string) error {
			if len(args) > 0 {
				o.Name = args[0]
			}
			return cli.Tools(ctx, e, server, o)
		})
	addJSONFlag(cmd, e.Console)
	addCapabilityFlag(cmd, &o.Capabilities, "List only tools with this capability `tag`; 'metarouter capabilities' lists the tags. Repeat the flag to list tools that have all of several tags. By default all tools are listed.")
	cmd.Flags().StringVar(&server, "server", "", "List only the tools of this `server`, which is started if it does not run. By default the tools of all servers are listed.")
	cmd.Flags().BoolVar(&o.Changed, "seen", false, "List how the definitions of tools changed since you last looked, and be warned of these changes no more. Changed hints, such as readOnlyHint, count only once 'metarouter trust --hints SERVER' has confirmed them. It starts no server. By default the tools are listed.")
	addProfileFlag(cmd, e)
	cmd.MarkFlagsMutuallyExclusive("seen", "capability")
	cmd.MarkFlagsMutuallyExclusive("seen", "profile")
	return cmd
}

func newCapabilitiesCommand(e *cli.Env) *cobra.Command {
	cmd := newCommand("capabilities [TAG]", "List the capability tags, or the tools that have one of them",
		`  metarouter capabilities
  metarouter capabilities browser`,
		arguments(0, 1, "name one tag at most"), func(ctx context.Context, args []string) error {
			if len(args) > 0 {
				return cli.Tools(ctx, e, "", admin.ToolsRequest{Capabilities: args, Known: true})
			}
			return cli.Capabilities(ctx, e)
		})
	addJSONFlag(cmd, e.Console)
	addProfileFlag(cmd, e)
	return cmd
}

func newCallCommand(e *cli.Env) *cobra.Command {
	var raw string
	var o admin.CallRequest
	cmd := newCommand("call TOOL [KEY=VALUE …]", "Run one tool",
		`  metarouter call utilities:unit_convert value=5 from_unit=km to_unit=mi
  metarouter call playwright:browser_navigate --args '{"url":"https://example.com"}'`,
		arguments(1, -1, "name the tool; 'metarouter tools' lists all"), func(ctx context.Context, args []string) error {
			o.Tool, o.Pairs = args[0], args[1:]
			return cli.Call(ctx, e, o, raw)
		})
	cmd.Long = `Runs one tool and prints its result.

TOOL is server:tool, server__tool, server.tool, or the tool's own name if only one
server has it. KEY=VALUE is an argument of the tool: VALUE is JSON, or plain text,
which needs no quotes. Pairs are added to the object of --args; where both have a key,
the pair is used.`
	addJSONFlag(cmd, e.Console)
	addProfileFlag(cmd, e)
	addArgsFlag(cmd, &raw)
	cmd.Flags().BoolVar(&o.Yes, "yes", false, "Agree to the call where a profile asks first. By default you are asked on the terminal; without a terminal the tool is not run.")
	return cmd
}

func newScriptCommand(e *cli.Env) *cobra.Command {
	var input string
	var o admin.ScriptRequest
	cmd := newCommand("script FILE", "Run a script in JavaScript that calls tools",
		`  metarouter script report.js --input '{"year": 2026}'
  echo 'return await tools.utilities.unit_convert(input)' | metarouter script - --input @values.json`,
		exactly("name one file with a script; - is stdin"), func(ctx context.Context, args []string) error {
			return cli.Script(ctx, e, args[0], o, input)
		})
	cmd.Long = `Runs a script, and prints the value that it returns: a string as text, another value as
JSON. Its log and its error go to stderr, with the calls that took effect.

FILE has at most 64 KiB of JavaScript, the body of an async function: await
tools.server.tool({…}) or await call("server:tool", {…}) calls a tool, search("…") finds
tools, input is the value of --input. A call that fails throws a ToolError.`
	addJSONFlag(cmd, e.Console)
	addProfileFlag(cmd, e)
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
	cmd := newCommand("route TASK [KEY=VALUE …]", "Pick the best tool for a task and run it",
		`  metarouter route "convert 5 kilometers to miles" value=5 from_unit=km to_unit=mi
  metarouter route "convert 5 kilometers to miles" --args '{"value":5,"from_unit":"km","to_unit":"mi"}'
  metarouter route "take a screenshot" -c browser -c screenshot --dry-run`,
		arguments(1, -1, `write the task in words, such as "convert 5 km to miles"`), func(ctx context.Context, args []string) error {
			return cli.Route(ctx, e, args, o, raw)
		})
	cmd.Long = `Picks the best tool for a task, and runs it if that is safe; see --yes.

TASK is words. KEY=VALUE after them, in an argument of its own, is an argument of the
tool, as in 'metarouter call': VALUE is JSON, or plain text, which needs no quotes. Pairs
are added to the object of --args; where both have a key, the pair is used.`
	addJSONFlag(cmd, e.Console)
	addProfileFlag(cmd, e)
	addArgsFlag(cmd, &raw)
	addCapabilityFlag(cmd, &o.Capabilities, preferTags)
	cmd.Flags().BoolVar(&o.DryRun, "dry-run", false, "Show which tool would be picked, and run nothing. By default the tool runs if that is safe; see --yes.")
	cmd.Flags().BoolVar(&o.Yes, "yes", false, "Run the tool even if it may change or destroy something, if the confidence is below routeThreshold, or if a profile asks first. By default such a tool is named and not run; where a profile asks first, you are asked on the terminal.")
	return cmd
}

func newServersCommand(e *cli.Env) *cobra.Command {
	var watch bool
	cmd := newCommand("servers [SERVER]", "Show the state of every server, or all about one",
		`  metarouter servers
  metarouter servers playwright
  metarouter servers --watch`,
		arguments(0, 1, "name one server at most"), func(ctx context.Context, args []string) error {
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
	cmd.Long = `Shows the state of every server, or all about one: its whole last error and its last
lines on stderr, too. If no router runs, it starts the servers and stops them again. In a
cluster, a router that has just started waits up to 8 s for the servers of other nodes.`
	addJSONFlag(cmd, e.Console)
	addNamedProfileFlag(cmd, e, "Show only the servers that the `profile` of this name allows. (default all servers)")
	cmd.Flags().BoolVar(&watch, "watch", false, "Print a line for each change of a server until Ctrl-C, with --json an object in a line. By default the servers are shown once.")
	return cmd
}

func newRestartCommand(e *cli.Env) *cobra.Command {
	return newCommand("restart NAME", "Restart a server in every router with this configuration",
		`  metarouter restart playwright`,
		arguments(1, 1, "name one server; 'metarouter servers' lists all"), func(ctx context.Context, args []string) error { return cli.Restart(ctx, e, args[0]) })
}

func newClassifyCommand(e *cli.Env) *cobra.Command {
	cmd := newCommand("classify TEXT", "Sort a text into one of the configured categories",
		`  metarouter classify "What is the derivative of x squared?"
  metarouter classify --config categories.example.json --json "Who built the pyramids?"`,
		arguments(1, -1, "write the text to classify"), func(ctx context.Context, args []string) error {
			return cli.Classify(ctx, e, strings.Join(args, " "))
		})
	addJSONFlag(cmd, e.Console)
	addProfileFlag(cmd, e)
	return cmd
}

func newWhyCommand(e *cli.Env) *cobra.Command {
	var task string
	cmd := newCommand("why TOOL", "Say why a tool is offered or not, and where it ranks",
		`  metarouter why files:read_file
  metarouter why unit_convert --for "convert 5 km to miles"`,
		arguments(1, 1, "name one tool; 'metarouter tools' lists all"), func(ctx context.Context, args []string) error { return cli.Why(ctx, e, args[0], task) })
	addJSONFlag(cmd, e.Console)
	addNamedProfileFlag(cmd, e, "Say whether clients of the `profile` of this name are offered the tool. (default clients that see everything)")
	cmd.Flags().StringVar(&task, "for", "", "Say also where the tool ranks for this `task`, and why. By default it is not ranked.")
	return cmd
}

func newDoctorCommand(e *cli.Env) *cobra.Command {
	var pin, write bool
	cmd := newCommand("doctor", "Start every server, and say what is wrong and how to fix it",
		`  metarouter doctor
  metarouter doctor --config team.mcp.json --json
  metarouter doctor --pin --write`,
		noArguments, func(ctx context.Context, _ []string) error { return cli.Doctor(ctx, e, pin, write) })
	addJSONFlag(cmd, e.Console)
	cmd.Flags().BoolVar(&pin, "pin", false, "Show the configuration with the exact versions of npm and PyPI packages that run, so that npx and uvx look none up. By default versions are not looked at.")
	cmd.Flags().BoolVar(&write, "write", false, "With --pin, write the file, and keep a copy of the old one next to it. By default the change is only shown.")
	cmd.MarkFlagsMutuallyExclusive("pin", "json")
	return cmd
}

func newSkillCommand(e *cli.Env) *cobra.Command {
	var o cli.SkillOptions
	cmd := newCommand("skill", "Print a skill, with which agents use your tools in a shell",
		`  metarouter skill
  metarouter skill --servers github,playwright --write`,
		noArguments, func(ctx context.Context, _ []string) error { return cli.Skill(ctx, e, o) })
	cmd.Long = `Prints a SKILL.md: instructions with which an agent that has a shell, such as Claude
Code, uses metarouter search, call and route instead of MCP.`
	cmd.Flags().StringSliceVar(&o.Servers, "servers", nil, "Name these `servers` of the configuration, separated by commas, in the skill, and what they are for. By default it names none, and fits any configuration.")
	cmd.Flags().BoolVar(&o.Write, "write", false, "Write it to .claude/skills/metarouter/SKILL.md in this folder, where Claude Code finds it, and keep a copy of a file that is there. By default it is only printed.")
	cmd.Flags().BoolVar(&o.User, "user", false, "Use the skills of your user, in ~/.claude or $CLAUDE_CONFIG_DIR. By default they are those of this folder.")
	return cmd
}

func addProfileFlag(cmd *cobra.Command, e *cli.Env) {
	addNamedProfileFlag(cmd, e, "Show and use only what the `profile` of this name allows, as its clients do; \"\" is everything. (default the profile \"default\" if there is one, else everything)")
}

// addNamedProfileFlag gives cmd the flag --profile with a meaning of its own.
func addNamedProfileFlag(cmd *cobra.Command, e *cli.Env, usage string) {
	cmd.Flags().Func("profile", usage, func(name string) error { e.Files.Profile = &name; return nil })
}

func newDashboardCommand(e *cli.Env) *cobra.Command {
	var address string
	cmd := newCommand("dashboard", "Serve the dashboard of the running router to a browser",
		`  metarouter dashboard
  metarouter dashboard --addr 127.0.0.1:8788`,
		noArguments, func(ctx context.Context, _ []string) error { return cli.Dashboard(ctx, e, address) })
	cmd.Flags().StringVar(&address, "addr", "127.0.0.1:0", "Serve the page at this loopback `address`. Port 0 takes any free port.")
	return cmd
}
