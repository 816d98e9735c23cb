package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/cli"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/daemon"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/service"
	"github.com/mcp-metarouter/metarouter/internal/ended"
	"github.com/mcp-metarouter/metarouter/internal/secret"
)

const helpColumns = 80

// newRootCommand returns the command line. args are the arguments of the process.
func newRootCommand(files *configfile.Source, args []string) *cobra.Command {
	local, out := &service.Runner{Files: files, Version: version}, files.Console
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
		RunE: func(cmd *cobra.Command, _ []string) error {
			if cmd.Flags().NFlag() > 0 {
				return errors.New("no command is named; --config, --data and --log-level take the word after them")
			}
			return cmd.Help()
		},
	}
	root.SetOut(out.Out)
	root.SetErr(out.Err)
	root.SetUsageTemplate(strings.NewReplacer("Flags.FlagUsages ", fmt.Sprintf("Flags.FlagUsagesWrapped %d ", helpColumns),
		"{{if .Runnable}}", "{{if and .Runnable .HasParent}}").Replace(root.UsageTemplate()))
	root.SetHelpCommand(newHelpCommand())
	root.Flags().BoolP("help", "h", false, "Print this help.")
	root.Flags().BoolP("version", "v", false, "Print the version.")
	flags := root.PersistentFlags()
	flags.StringArrayVar(&files.Paths, "config", nil, "Read the servers from this configuration `file`. Repeat the flag to read several files; a later file wins over an earlier one. (default ./.mcp.json, else metarouter/mcp.json in ~/.config; in ~/Library/Application Support on macOS, in %AppData% on Windows)")
	flags.StringVar(&files.Data, "data", configfile.DefaultData(), "Keep the catalog and the logs of servers in this `folder`. An empty name (\"\") keeps nothing.")
	flags.StringVar(&out.LogLevel, "log-level", "", "Write log lines of this `level`, or a more serious one, to stderr: debug, info, warn or error. (default info for serve, no log lines for other commands)")
	flags.BoolVar(&local.Debug, "debug", false, "Let other processes of yours read the memory and the environment of this one, as debuggers do, and let a crash write a core file. By default they can't, since both hold secrets. (Linux only)")
	root.PersistentPreRun = func(cmd *cobra.Command, args []string) {
		debug := local.Debug || cmd.Name() == "guard" && slices.Contains(args, "--debug") // it has no flags
		if !debug && cmd.Name() != "builtin" {                                            // a bundled server is found by its environment
			secret.HideProcess()
		}
	}
	for _, g := range subcommands(local, args) {
		if g.title != "" {
			root.AddGroup(&cobra.Group{ID: g.title, Title: g.title})
		}
		for _, cmd := range g.commands {
			cmd.GroupID = g.title
			root.AddCommand(cmd)
		}
	}
	root.AddCommand(newManCommand(root))
	for _, cmd := range root.Commands() {
		cmd.SuggestFor = otherNames[cmd.Name()]
	}
	addCompletion(root, &files.Paths)
	return root
}

// A group is commands below a heading of the help. Those without one come last.
type group struct {
	title    string
	commands []*cobra.Command
}

// subcommands returns the subcommands, but for the one that writes the manual.
func subcommands(local *service.Runner, args []string) []group {
	files, out, program := local.Files, local.Files.Console, daemon.Program(version)
	e := &cli.Env{Console: out, Runner: local, Program: program}
	asking := func(commands ...*cobra.Command) []*cobra.Command {
		for _, cmd := range commands {
			cmd.Flags().BoolVar(&e.Standalone, "standalone", false, "Start the servers that this command needs, and stop them at the end, even if a router with this configuration runs. By default a running router with this configuration does the work.")
		}
		return commands
	}
	others := []*cobra.Command{newVersionCommand(out), newHealthCommand(out), newBuiltinCommand(), newGuardCommand()}
	for name, line := range ended.Commands() {
		others = append(others, newEndedCommand(name, line))
	}
	return []group{
		{"Use tools:", asking(newSearchCommand(e), newToolsCommand(e), newCallCommand(e), newRouteCommand(e), newScriptCommand(e), newCapabilitiesCommand(e),
			newClassifyCommand(e), newWhyCommand(e), newSkillCommand(e))},
		{"Servers:", append(asking(newServersCommand(e), newRestartCommand(e), newDoctorCommand(e)),
			newLoginCommand(local), newLogoutCommand(local), newLoginsCommand(out), newSecretCommand(files))},
		{"Configuration:", []*cobra.Command{newInitCommand(files), newImportCommand(local), newAddCommand(local), newAddJSONCommand(local),
			newServerEdit(files, "remove", clients.RemoveServer), newServerEdit(files, "enable", disable(false)), newServerEdit(files, "disable", disable(true)),
			newCheckCommand(files), newTrustCommand(e), newSchemaCommand(out)}},
		{"Clients and other machines:", []*cobra.Command{newInstallCommand(files), newServeCommand(local, args, program), newDashboardCommand(e),
			newTokenCommand(files), newNodesCommand(files), newAuditCommand(files)}},
		{"", others},
	}
}

// newHelpCommand returns the command help. Cobra's own succeeds for a word that is no command.
func newHelpCommand() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Help about any command",
		RunE: func(cmd *cobra.Command, words []string) error {
			about, left, err := cmd.Root().Find(words)
			if err != nil || len(left) > 0 {
				return fmt.Errorf("no command is called %q", strings.Join(words, " "))
			}
			return about.Help()
		},
	}
}

// newEndedCommand returns a command that metarouter no longer has.
func newEndedCommand(name, line string) *cobra.Command {
	return &cobra.Command{
		Use: name, Hidden: true, DisableFlagParsing: true,
		RunE: func(*cobra.Command, []string) error { return console.Usage(errors.New(line)) },
	}
}

// otherNames are words that other programs use for our commands.
var otherNames = map[string][]string{"tools": {"list", "ls"}, "servers": {"status", "ps"}, "call": {"run", "exec"}}

//go:embed help.txt
var helpText string

// help returns the sections of help.txt by path, such as "secret set".
var help = sync.OnceValue(func() map[string]string {
	all := make(map[string]string)
	for _, section := range strings.Split(helpText, "\n# ")[1:] {
		path, rest, _ := strings.Cut(section, "\n")
		all[path] = rest
	}
	return all
})

// newCommand returns the subcommand of a path, with its help. An error of run means that the operation failed,
// unless it is an [console.Error] with another code.
func newCommand(path string, args cobra.PositionalArgs, run func(ctx context.Context, args []string) error) *cobra.Command {
	head, text, _ := strings.Cut(help()[path], "\n\n")
	use, short, _ := strings.Cut(head, "\n")
	example, long := "", strings.TrimSpace(text)
	if strings.HasPrefix(text, "  ") {
		example, long, _ = strings.Cut(strings.TrimRight(text, "\n"), "\n\n")
	}
	cmd := &cobra.Command{
		Use: use, Short: strings.TrimSpace(short), Long: long, Example: example,
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
