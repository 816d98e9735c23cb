package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/cli"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/daemon"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/service"
	"github.com/mcp-metarouter/metarouter/internal/ended"
	"github.com/mcp-metarouter/metarouter/internal/secret"
)

const helpColumns = 80

// newRootCommand returns the command line. If the arguments begin with the name of a
// subcommand, it has that one alone, since to make all takes a noticeable part of a start.
func newRootCommand(out *console.Console, args []string) *cobra.Command {
	local := &service.Runner{Files: &configfile.Source{Console: out}, Version: version}
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
	root.SetOut(out.Out)
	root.SetErr(out.Err)
	root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), "Flags.FlagUsages ", fmt.Sprintf("Flags.FlagUsagesWrapped %d ", helpColumns)))
	root.Flags().BoolP("help", "h", false, "Print this help.")
	root.Flags().BoolP("version", "v", false, "Print the version.")
	flags := root.PersistentFlags()
	flags.StringArrayVar(&local.Files.Paths, "config", nil, "Read the servers from this configuration `file`. Repeat the flag to read several files; a later file wins over an earlier one. (default ./.mcp.json, else metarouter/mcp.json in ~/.config; in ~/Library/Application Support on macOS, in %AppData% on Windows)")
	flags.StringVar(&local.Files.Data, "data", configfile.DefaultData(), "Keep the catalog and the logs of servers in this `folder`. An empty name (\"\") keeps nothing.")
	flags.StringVar(&out.LogLevel, "log-level", "", "Write log lines of this `level`, or a more serious one, to stderr: debug, info, warn or error. (default info for serve, no log lines for other commands)")
	flags.BoolVar(&local.Debug, "debug", false, "Let other processes of yours read the memory and the environment of this one, as debuggers do, and let a crash write a core file. By default they can't, since both hold secrets. (Linux only)")
	root.PersistentPreRun = func(cmd *cobra.Command, args []string) {
		debug := local.Debug || cmd.Name() == "guard" && slices.Contains(args, "--debug") // it has no flags
		if !debug && cmd.Name() != "builtin" {                                            // a bundled server is found by its environment
			secret.HideProcess()
		}
	}
	root.AddCommand(commandsFor(root, local, args)...)
	for _, g := range groups {
		root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		for _, cmd := range root.Commands() {
			if slices.Contains(strings.Fields(g.commands), cmd.Name()) {
				cmd.GroupID = g.title
			}
		}
	}
	for _, cmd := range root.Commands() {
		cmd.SuggestFor = otherNames[cmd.Name()]
	}
	addCompletion(root, &local.Files.Paths)
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		cmd.Long = wrapped(cmd.Long)
		help(cmd, args)
	})
	return root
}

// groups are the headings of the help, with the commands below each. The other commands come last.
var groups = []struct{ title, commands string }{
	{"Use tools:", "search tools call route script capabilities classify why skill"},
	{"Servers:", "servers restart doctor login logout logins secret"},
	{"Configuration:", "init import add add-json remove enable disable check trust schema"},
	{"Clients and other machines:", "install serve dashboard token nodes audit"},
}

// with returns the function that makes a command that works with in.
func with[In any](make func(In) *cobra.Command, in In) func() *cobra.Command {
	return func() *cobra.Command { return make(in) }
}

// subcommands returns the functions that make the subcommands, but for the one that writes the manual, by name.
func subcommands(local *service.Runner, args []string) map[string]func() *cobra.Command {
	files, out := local.Files, local.Files.Console
	program := daemon.Program(version)
	e := &cli.Env{Console: out, Runner: local, Program: program}
	all := map[string]func() *cobra.Command{
		"route": with(newRouteCommand, e), "search": with(newSearchCommand, e), "call": with(newCallCommand, e), "tools": with(newToolsCommand, e), "script": with(newScriptCommand, e),
		"servers": with(newServersCommand, e), "restart": with(newRestartCommand, e), "capabilities": with(newCapabilitiesCommand, e), "classify": with(newClassifyCommand, e),
		"doctor": with(newDoctorCommand, e), "why": with(newWhyCommand, e), "skill": with(newSkillCommand, e),
	}
	for name, make := range all {
		all[name] = func() *cobra.Command { return standalone(make(), e) }
	}
	for name, line := range ended.Commands() {
		all[name] = func() *cobra.Command { return newEndedCommand(name, line) }
	}
	maps.Copy(all, map[string]func() *cobra.Command{
		"serve":     func() *cobra.Command { return newServeCommand(local, args, program) },
		"dashboard": with(newDashboardCommand, e), "trust": with(newTrustCommand, e), "check": with(newCheckCommand, files),
		"init": with(newInitCommand, files), "add": with(newAddCommand, local), "add-json": with(newAddJSONCommand, local),
		"remove": with(newRemoveCommand, files), "enable": with(newEnableCommand, files), "disable": with(newDisableCommand, files),
		"import": with(newImportCommand, local), "install": with(newInstallCommand, files), "login": with(newLoginCommand, local), "logout": with(newLogoutCommand, local), "logins": with(newLoginsCommand, out),
		"token": with(newTokenCommand, files), "secret": with(newSecretCommand, files), "nodes": with(newNodesCommand, files), "audit": with(newAuditCommand, files),
		"schema": with(newSchemaCommand, out), "version": with(newVersionCommand, out), "health": with(newHealthCommand, out),
		"builtin": newBuiltinCommand, "guard": newGuardCommand,
	})
	return all
}

// commandsFor returns the subcommand that the arguments begin with, else all subcommands.
func commandsFor(root *cobra.Command, local *service.Runner, args []string) (all []*cobra.Command) {
	list := subcommands(local, args)
	if len(args) > 0 && list[args[0]] != nil {
		return []*cobra.Command{list[args[0]]()}
	}
	for _, make := range list {
		all = append(all, make())
	}
	return append(all, newManCommand(root))
}

// newEndedCommand returns a command that metarouter no longer has.
func newEndedCommand(name, line string) *cobra.Command {
	return &cobra.Command{
		Use: name, Hidden: true, DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error { return console.Usage(errors.New(line)) },
	}
}

// standalone gives a command that can ask a router the flag --standalone.
func standalone(cmd *cobra.Command, e *cli.Env) *cobra.Command {
	cmd.Flags().BoolVar(&e.Standalone, "standalone", false, "Start the servers that this command needs, and stop them at the end, even if a router with this configuration runs. By default a running router with this configuration does the work.")
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
			paragraphs[i] = strings.Join(console.Hang("", p, helpColumns), "\n")
		}
	}
	return strings.Join(paragraphs, "\n\n")
}

// newCommand returns a subcommand. An error of run means that the operation failed,
// unless it is an [console.Error] with another code.
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
			if _, ok := errors.AsType[*console.Error](err); err == nil || ok {
				return err
			}
			if ctx := cmd.Context(); errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx)) {
				return console.Interrupted
			}
			return &console.Error{Code: console.Failed, Err: err}
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

func exactly(advice string) cobra.PositionalArgs { return arguments(1, 1, advice) }

func noArguments(cmd *cobra.Command, given []string) error {
	if len(given) > 0 {
		return fmt.Errorf("%s takes no argument, but %q was given", cmd.Name(), given[0])
	}
	return nil
}

func addJSONFlag(cmd *cobra.Command, out *console.Console) {
	cmd.Flags().BoolVar(&out.JSON, "json", false, "Print the answer as JSON. By default it is text.")
}

// preferTags is the help of --capability for the commands that rank tools.
const preferTags = "Prefer tools with this capability `tag`; 'metarouter capabilities' lists the tags. Repeat the flag to ask for several. If no tool has all of them, the tools that have most of them are considered. By default all tools are considered."

func addCapabilityFlag(cmd *cobra.Command, tags *[]string, help string) {
	cmd.Flags().StringArrayVarP(tags, "capability", "c", nil, help)
}
