package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/completion"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/terminal"
	"github.com/mcp-metarouter/metarouter/internal/secret"
)

// helpColumns is the width of the help.
const helpColumns = 80

// newRootCommand returns the command line. If the arguments of env begin with the name of a
// subcommand, it has that one alone, since to make all takes a noticeable part of a start.
func newRootCommand(env *environment) *cobra.Command {
	root := &cobra.Command{
		Use:     "metarouter",
		Short:   "One MCP server in front of many",
		Version: version,
		Long: `metarouter keeps the MCP servers of a .mcp.json running, finds the right tool
for a task, runs it on the right server, and shows all of them to a client as
one MCP server.`,
		Example: `  metarouter servers
  metarouter search "take a screenshot of a page"
  metarouter install claude-desktop --write`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetOut(env.Out)
	root.SetErr(env.Err)
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), "Flags.FlagUsages ", fmt.Sprintf("Flags.FlagUsagesWrapped %d ", helpColumns)))
	root.Flags().BoolP("help", "h", false, "Print this help.")
	root.Flags().BoolP("version", "v", false, "Print the version.")
	flags := root.PersistentFlags()
	flags.StringArrayVar(&env.files.Paths, "config", nil, "Read the servers from this configuration `file`. Repeat the flag to read several files; a later file wins over an earlier one. (default ./.mcp.json, else metarouter/mcp.json in ~/.config; in ~/Library/Application Support on macOS, in %AppData% on Windows)")
	flags.StringVar(&env.files.Data, "data", configfile.DefaultData(), "Keep the catalog, the logs of servers and what was learned from calls in this `folder`. An empty name (\"\") keeps nothing.")
	flags.StringVar(&env.LogLevel, "log-level", "", "Write log lines of this `level`, or a more serious one, to stderr: debug, info, warn or error. (default info for serve, warn for eval and usage, no log lines for other commands)")
	flags.BoolVar(&env.local.Debug, "debug", false, "Let other processes of yours read the memory and the environment of this one, as debuggers do, and let a crash write a core file. By default they can't, since both hold secrets. (Linux only)")
	root.PersistentPreRun = func(cmd *cobra.Command, args []string) {
		debug := env.local.Debug || cmd.Name() == "guard" && slices.Contains(args, "--debug") // it has no flags
		if !debug && cmd.Name() != "builtin" {                                                // a bundled server is found by its environment
			secret.HideProcess()
		}
	}
	root.AddCommand(commandsFor(env, root)...)
	for _, cmd := range root.Commands() {
		cmd.SuggestFor = otherNames[cmd.Name()]
	}
	completion.Add(root, &env.files.Paths)
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		cmd.Long = wrapped(cmd.Long)
		help(cmd, args)
	})
	return root
}

// A subcommand makes a command of the name.
type subcommand struct {
	name string
	make func(*environment) *cobra.Command
}

// askingCommands returns the subcommands that can ask a router.
func askingCommands() []subcommand {
	return []subcommand{
		{"route", newRouteCommand}, {"search", newSearchCommand}, {"call", newCallCommand}, {"tools", newToolsCommand},
		{"servers", newServersCommand}, {"restart", newRestartCommand}, {"capabilities", newCapabilitiesCommand}, {"classify", newClassifyCommand},
		{"usage", newUsageCommand}, {"doctor", newDoctorCommand}, {"why", newWhyCommand}, {"skill", newSkillCommand},
	}
}

// otherCommands returns the subcommands that can't, but for that which writes the manual.
func otherCommands(env *environment) []subcommand {
	files, local, out := &env.files, &env.local, env.Console
	return []subcommand{
		{"serve", newServeCommand}, {"dashboard", newDashboardCommand}, {"plan", newPlanCommand}, {"trust", newTrustCommand},
		{"init", with(newInitCommand, files)}, {"add", func(*environment) *cobra.Command { return newAddCommand(local, env.args) }}, {"add-json", with(newAddJSONCommand, local)},
		{"remove", with(newRemoveCommand, files)}, {"enable", with(newEnableCommand, files)}, {"disable", with(newDisableCommand, files)},
		{"import", with(newImportCommand, local)}, {"install", with(newInstallCommand, files)}, {"check", with(newCheckCommand, files)},
		{"token", with(newTokenCommand, files)}, {"secret", with(newSecretCommand, files)}, {"nodes", with(newNodesCommand, files)}, {"audit", with(newAuditCommand, files)},
		{"login", with(newLoginCommand, local)}, {"logout", with(newLogoutCommand, local)},
		{"eval", with(newEvalCommand, out)}, {"schema", with(newSchemaCommand, out)}, {"version", with(newVersionCommand, out)}, {"health", with(newHealthCommand, out)},
		{"builtin", func(*environment) *cobra.Command { return newBuiltinCommand() }},
		{"guard", func(*environment) *cobra.Command { return newGuardCommand() }},
	}
}

// with returns what makes a command that needs no more of the environment than in.
func with[In any](make func(In) *cobra.Command, in In) func(*environment) *cobra.Command {
	return func(*environment) *cobra.Command { return make(in) }
}

// commandsFor returns the subcommand whose name the arguments begin with, and all of them if
// there is no such subcommand.
func commandsFor(env *environment, root *cobra.Command) (all []*cobra.Command) {
	asking, others := askingCommands(), otherCommands(env)
	isMeant := func(s subcommand) bool { return len(env.args) > 0 && s.name == env.args[0] }
	i, j := slices.IndexFunc(asking, isMeant), slices.IndexFunc(others, isMeant)
	switch {
	case i >= 0:
		return []*cobra.Command{askingCommand(env, asking[i])}
	case j >= 0:
		return []*cobra.Command{others[j].make(env)}
	}
	for _, s := range asking {
		all = append(all, askingCommand(env, s))
	}
	for _, s := range others {
		all = append(all, s.make(env))
	}
	return append(all, newManCommand(root))
}

// askingCommand makes a subcommand that can ask a router.
func askingCommand(env *environment, s subcommand) *cobra.Command {
	cmd := s.make(env)
	does := "Start the servers that this command needs, and stop them at the end, even if a router with this configuration runs. By default a running router with this configuration does the work."
	if s.name == "restart" {
		does = "Leave the running routers alone: start a second copy of the server to see whether it can start, and stop it at the end. By default the running routers restart the server."
	}
	cmd.Flags().BoolVar(&env.standalone, "standalone", false, does)
	return cmd
}

// otherNames are words that other programs use for our commands.
var otherNames = map[string][]string{"tools": {"list", "ls"}, "servers": {"status", "ps"}, "call": {"run", "exec"}}

// wrapped breaks the paragraphs of a text into lines of helpColumns. Those with indented
// lines stay.
func wrapped(text string) string {
	paragraphs := strings.Split(text, "\n\n")
	for i, p := range paragraphs {
		if p != "" && !strings.Contains("\n"+p, "\n ") {
			paragraphs[i] = strings.Join(terminal.Hang("", p, helpColumns), "\n")
		}
	}
	return strings.Join(paragraphs, "\n\n")
}

// newCommand returns a subcommand. An error of run means that the operation failed,
// unless it is an [exit.Error] with another code.
func newCommand(use, short, example string, args cobra.PositionalArgs, run func(ctx context.Context, args []string) error) *cobra.Command {
	cmd := &cobra.Command{
		Use: use, Short: short, Example: example,
		Args: func(cmd *cobra.Command, given []string) error {
			if err := args(cmd, given); err != nil {
				return fmt.Errorf("%w; write: %s", err, cmd.Parent().CommandPath()+" "+use)
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			err := run(cmd.Context(), args)
			if _, ok := errors.AsType[*exit.Error](err); err == nil || ok {
				return err
			}
			if ctx := cmd.Context(); errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx)) {
				return exit.Interrupted
			}
			return &exit.Error{Code: exit.Failed, Err: err}
		},
	}
	cmd.Flags().BoolP("help", "h", false, "Print this help.")
	return cmd
}

// arguments checks that a command has from least to most arguments. The error is advice.
// most is -1 if there is no limit.
func arguments(least, most int, advice string) cobra.PositionalArgs {
	return func(_ *cobra.Command, given []string) error {
		if len(given) < least || most >= 0 && len(given) > most {
			return errors.New(advice)
		}
		return nil
	}
}

// exactly checks that a command has one argument. The error is advice.
func exactly(advice string) cobra.PositionalArgs { return arguments(1, 1, advice) }

// noArguments checks that a command has no argument.
func noArguments(cmd *cobra.Command, given []string) error {
	if len(given) > 0 {
		return fmt.Errorf("%s takes no argument, but %q was given", cmd.Name(), given[0])
	}
	return nil
}

// addJSONFlag gives cmd the flag --json.
func addJSONFlag(cmd *cobra.Command, out *console.Console) {
	cmd.Flags().BoolVar(&out.JSON, "json", false, "Print the answer as JSON. By default it is text.")
}

// preferTags is the help of --capability for the commands that rank tools.
const preferTags = "Prefer tools with this capability `tag`; 'metarouter capabilities' lists the tags. Repeat the flag to ask for several. If no tool has all of them, the tools that have most of them are considered. By default all tools are considered."

// addCapabilityFlag gives cmd the flag --capability.
func addCapabilityFlag(cmd *cobra.Command, tags *[]string, help string) {
	cmd.Flags().StringArrayVarP(tags, "capability", "c", nil, help)
}
