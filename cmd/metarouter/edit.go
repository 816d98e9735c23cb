package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/cli"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/edit"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/logins"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/service"
	"github.com/mcp-metarouter/metarouter/config"
)

// editorOf returns the editor of commands that offer logins.
func editorOf(local *service.Runner) edit.Editor {
	return edit.Editor{Source: local.Files, Offer: func(ctx context.Context, files, names []string) error {
		return logins.Offer(ctx, local, files, names)
	}}
}

func newInitCommand(files *configfile.Source) *cobra.Command {
	e := edit.Editor{Source: files}
	cmd := newCommand("init", "Write a first configuration",
		`  metarouter init                              # show the file
  metarouter init --write                      # write it
  metarouter init --config .mcp.json --write   # for the project in this folder`,
		noArguments, func(context.Context, []string) error { return edit.Init(&e) })
	cmd.Long = `Writes a first configuration, with the bundled servers, into your own file or the one of
--config. A file that exists stays as it is; see 'metarouter add' and 'metarouter import'.

It prints the file. --write writes it.`
	addWriteFlag(cmd, &e)
	cmd.Flags().Lookup("write").Usage = "Write the file. By default it is only shown."
	return cmd
}

func newAddCommand(local *service.Runner) *cobra.Command {
	e, flags, replace := editorOf(local), clients.EntryFlags{}, false
	const use = "add NAME -- COMMAND [ARGUMENT…] | add NAME URL"
	cmd := newCommand(use, "Add a server to the configuration",
		`  metarouter add memory -- npx -y @modelcontextprotocol/server-memory            # show what would change
  metarouter add memory --write -- npx -y @modelcontextprotocol/server-memory    # change it, and keep a copy
  metarouter add github -e 'GITHUB_TOKEN=${GITHUB_TOKEN}' --write -- npx -y @modelcontextprotocol/server-github
  metarouter add docs https://example.com/mcp -H 'Authorization: Bearer ${DOCS_TOKEN}' --write`,
		cobra.ArbitraryArgs, func(ctx context.Context, given []string) error {
			name, entry, err := flags.Entry(given)
			if err != nil {
				return console.Usage(fmt.Errorf("%w\ntry 'metarouter add --help'", err))
			}
			if entry.Cwd != "" {
				e.Console.Note("note: the server starts in %s, since its command has a path that is relative to it", entry.Cwd)
			}
			if slices.Contains(given, "--write") {
				e.Console.Note("note: --write after -- belongs to the server; put it before -- if metarouter is to have it")
			}
			return edit.Add(ctx, &e, name, entry.Text, replace)
		})
	cmd.Long = `Adds a server to the configuration in use: a COMMAND that speaks MCP over stdio, or
the URL of a server on the network. A line for 'claude mcp add' works too.

` + aboutAdd
	cmd.Flags().StringVarP(&flags.Transport, "transport", "t", "", "Reach the server by this `TRANSPORT`: stdio, http or sse. (default stdio for a command; for a URL, http is tried, then sse)")
	cmd.Flags().StringArrayVarP(&flags.Env, "env", "e", nil, "Start the server with this variable, a `KEY=VALUE`. A value such as ${GITHUB_TOKEN} is taken from the environment of the router. Repeat the flag for several.")
	cmd.Flags().StringArrayVarP(&flags.Headers, "header", "H", nil, "Send this header to the server, as `\"Name: value\"`. Repeat the flag for several.")
	addAddFlags(cmd, &e, &replace)
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return fmt.Errorf("%w\nif this option is the server's, write -- before its command: metarouter add NAME -- COMMAND ARGUMENT", err)
	})
	return cmd
}

func newAddJSONCommand(local *service.Runner) *cobra.Command {
	e, replace := editorOf(local), false
	cmd := newCommand("add-json NAME JSON", "Add a server to the configuration, as an entry in JSON",
		`  metarouter add-json docs '{"url": "https://example.com/mcp"}' --write`,
		arguments(2, 2, "name the server, and write its entry as an object of JSON"), func(ctx context.Context, args []string) error {
			return edit.Add(ctx, &e, args[0], func(string) string { return args[1] }, replace)
		})
	cmd.Long = "Adds a server to the configuration in use. JSON is what stands after the server's name in the file.\n\n" + aboutAdd
	addAddFlags(cmd, &e, &replace)
	return cmd
}

const (
	aboutWrite = `It prints what would change, with values that may be secret hidden. --write writes
the file and keeps a copy of the old one next to it.`
	aboutEdit = aboutWrite + ` Everything else in the file
stays as it is, byte for byte.`
	aboutAdd = aboutEdit + ` Of several files, the last one gets the entry. If there is
no configuration yet, your own file is created.`
)

func addAddFlags(cmd *cobra.Command, e *edit.Editor, replace *bool) {
	cmd.Flags().BoolVar(replace, "replace", false, "Replace the server of that name. By default it is an error that there is one.")
	addWriteFlag(cmd, e)
	addScopeFlag(cmd, e.Console)
}

func newServerEdit(files *configfile.Source, verb, short, long string, change func(path string, data []byte, name string) ([]byte, error)) *cobra.Command {
	e := edit.Editor{Source: files}
	cmd := newCommand(verb+" NAME", short, fmt.Sprintf("  metarouter %s github            # show what would change\n  metarouter %s github --write    # change it, and keep a copy", verb, verb),
		exactly("name one server"), func(_ context.Context, args []string) error { return edit.Server(&e, args[0], change) })
	cmd.Long = long + "\n\n" + aboutEdit + ` Of several files, the one that has the entry is edited.`
	addWriteFlag(cmd, &e)
	addScopeFlag(cmd, e.Console)
	return cmd
}

func newRemoveCommand(files *configfile.Source) *cobra.Command {
	return newServerEdit(files, "remove", "Remove a server from the configuration",
		"Removes a server from the configuration in use. 'metarouter disable' keeps its entry.",
		clients.RemoveServer)
}

func newDisableCommand(files *configfile.Source) *cobra.Command {
	return newServerEdit(files, "disable", "Disable a server in the configuration",
		"Disables a server in the configuration in use: its entry stays, and it is not started.",
		func(path string, data []byte, name string) ([]byte, error) {
			return clients.DisableServer(path, data, name, true)
		})
}

func newEnableCommand(files *configfile.Source) *cobra.Command {
	return newServerEdit(files, "enable", "Enable a disabled server in the configuration",
		"Enables a server in the configuration in use that was disabled there.",
		func(path string, data []byte, name string) ([]byte, error) {
			return clients.DisableServer(path, data, name, false)
		})
}

func addWriteFlag(cmd *cobra.Command, e *edit.Editor) {
	cmd.Flags().BoolVar(&e.Write, "write", false, "Write the file, and keep a copy of the old one next to it. By default the change is only shown.")
}

// addScopeFlag gives cmd the flag --scope of 'claude mcp', which means nothing here.
func addScopeFlag(cmd *cobra.Command, out *console.Console) {
	var scope string
	cmd.Flags().StringVarP(&scope, "scope", "s", "", "This `scope` is ignored, as there are none here; --config names the file. The flag exists so that a line for 'claude mcp' works.")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if scope != "" {
			out.Note("note: --scope %s is ignored: metarouter has no scopes; --config names the file to edit", scope)
		}
		return run(cmd, args)
	}
}

func newCheckCommand(files *configfile.Source) *cobra.Command {
	cmd := newCommand("check", "Report every problem of the configuration files; start nothing",
		`  metarouter check
  metarouter check --config team.mcp.json --json`,
		noArguments, func(ctx context.Context, _ []string) error { return files.Check(ctx) })
	cmd.Long = `Reads the configuration and prints each mistake in it, with its line and column.

Errors are what can't be used as it is written: the exit code is 2. Warnings are
what has no effect, such as an unknown key, or is probably not as you intended.

It starts no server. To find programs that are missing and servers that fail, run
'metarouter doctor'.`
	addJSONFlag(cmd, files.Console)
	return cmd
}

func newSchemaCommand(out *console.Console) *cobra.Command {
	return newCommand("schema", "Print the JSON Schema of the configuration, for editors",
		"  metarouter schema > mcp.schema.json", cobra.NoArgs,
		func(context.Context, []string) error {
			_, err := out.Out.Write(config.Schema())
			return err
		})
}

func newTrustCommand(e *cli.Env) *cobra.Command {
	var server string // --hints
	var show bool
	cmd := newCommand("trust [FILE]", "Approve the .mcp.json of a project, so that it may be used",
		`  metarouter trust
  metarouter trust ../other/.mcp.json
  metarouter trust --hints github`,
		arguments(0, 1, "name at most one file"), func(ctx context.Context, args []string) error {
			switch {
			case server != "" && len(args) > 0:
				return console.Usage(errors.New("--hints confirms hints of a server's tools, and approves no file; --config names the file that has the server"))
			case server != "":
				return cli.ConfirmHints(ctx, e, server, show)
			case show:
				return console.Usage(errors.New("--show is for --hints; 'metarouter check' shows what is wrong with a file"))
			}
			paths := args
			if len(args) == 0 {
				paths = e.Files.Paths
			}
			if len(paths) == 0 {
				paths = []string{".mcp.json"}
			}
			for _, path := range paths {
				if err := e.Files.Trust(ctx, path); err != nil {
					return err
				}
			}
			return nil
		})
	cmd.Long = `Approves FILE, else those of --config, else the .mcp.json of the current folder, and prints
what they say: all but limits and other settings that do no harm, as it is written, with
variables not replaced by their values. What differs from the text that you approved before is marked,
and shown with its limits. On a terminal, it asks first. Approve the file again after each
edit.

With --hints it prints how hints of the server's tools changed since they were last
confirmed, such as readOnlyHint, and confirms them as they are known now: until then such a
tool does not count as one that only reads. It starts no server and approves no file.`
	cmd.Flags().StringVar(&server, "hints", "", "Confirm the hints (readOnlyHint, destructiveHint, idempotentHint) that tools of this `server` changed, instead of approving a file.")
	cmd.Flags().BoolVar(&show, "show", false, "With --hints, print only what changed, and confirm nothing. By default it is confirmed.")
	return cmd
}
