package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

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
	cmd := newCommand("init", noArguments, func(context.Context, []string) error { return edit.Init(&e) })
	addWriteFlag(cmd, &e)
	cmd.Flags().Lookup("write").Usage = "Write the file. By default it is only shown."
	return cmd
}

func newAddCommand(local *service.Runner) *cobra.Command {
	e, flags, replace := editorOf(local), clients.EntryFlags{}, false
	cmd := newCommand("add", cobra.ArbitraryArgs, func(ctx context.Context, given []string) error {
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
	cmd := newCommand("add-json", arguments(2, 2, "name the server, and write its entry as an object of JSON"), func(ctx context.Context, args []string) error {
		return edit.Add(ctx, &e, args[0], func(string) string { return args[1] }, replace)
	})
	addAddFlags(cmd, &e, &replace)
	return cmd
}

func addAddFlags(cmd *cobra.Command, e *edit.Editor, replace *bool) {
	cmd.Flags().BoolVar(replace, "replace", false, "Replace the server of that name. By default it is an error that there is one.")
	addWriteFlag(cmd, e)
	addScopeFlag(cmd, e.Console)
}

// newServerEdit returns a command that edits the entry of the server that its argument names.
func newServerEdit(files *configfile.Source, verb string, change func(path string, data []byte, name string) ([]byte, error)) *cobra.Command {
	e := edit.Editor{Source: files}
	cmd := newCommand(verb, exactly("name one server"), func(_ context.Context, args []string) error { return edit.Server(&e, args[0], change) })
	addWriteFlag(cmd, &e)
	addScopeFlag(cmd, e.Console)
	return cmd
}

// disable returns the edit that disables a server, or enables it.
func disable(disabled bool) func(path string, data []byte, name string) ([]byte, error) {
	return func(path string, data []byte, name string) ([]byte, error) {
		return clients.DisableServer(path, data, name, disabled)
	}
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
	cmd := newCommand("check", noArguments, func(ctx context.Context, _ []string) error { return files.Check(ctx) })
	addJSONFlag(cmd, files.Console)
	return cmd
}

func newSchemaCommand(out *console.Console) *cobra.Command {
	return newCommand("schema", cobra.NoArgs, func(context.Context, []string) error {
		_, err := out.Out.Write(config.Schema())
		return err
	})
}

func newTrustCommand(e *cli.Env) *cobra.Command {
	var server string // --hints
	var show bool
	cmd := newCommand("trust", arguments(0, 1, "name at most one file"), func(ctx context.Context, args []string) error {
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
	cmd.Flags().StringVar(&server, "hints", "", "Confirm the hints (readOnlyHint, destructiveHint, idempotentHint) that tools of this `server` changed, instead of approving a file.")
	cmd.Flags().BoolVar(&show, "show", false, "With --hints, print only what changed, and confirm nothing. By default it is confirmed.")
	return cmd
}

func oneClient(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("name one client: %s", strings.Join(clients.Names(), ", "))
	}
	if _, ok := clients.Find(args[0]); !ok {
		return fmt.Errorf("no client is called %q; the clients are %s", args[0], strings.Join(clients.Names(), ", "))
	}
	return nil
}

func newImportCommand(local *service.Runner) *cobra.Command {
	e, o := editorOf(local), edit.ClientFile{}
	cmd := newCommand("import", oneClient, func(ctx context.Context, args []string) error {
		return edit.Import(ctx, &e, args[0], o)
	})
	cmd.Flags().StringVar(&o.File, "file", "", "Read the servers from this `file` of the client. (default the file that the client reads on this system)")
	cmd.Flags().StringVar(&o.Project, "project", "", "Take the servers of the project in this `folder`. By default those of the user are taken.")
	addWriteFlag(cmd, &e)
	_ = cmd.MarkFlagDirname("project")
	cmd.MarkFlagsMutuallyExclusive("file", "project")
	return cmd
}

func newInstallCommand(files *configfile.Source) *cobra.Command {
	e, o := edit.Editor{Source: files}, edit.Installation{Version: version}
	var cmd *cobra.Command
	cmd = newCommand("install", oneClient, func(_ context.Context, args []string) error {
		for i := range o.Only {
			o.Only[i] = strings.TrimSpace(o.Only[i])
		}
		switch {
		case cmd.Flags().Changed("only") && !o.Each:
			return console.Usage(errors.New("--only needs --each"))
		case cmd.Flags().Changed("only") && strings.Join(o.Only, "") == "":
			return console.Usage(errors.New("--only names no server; name one, or leave the flag out"))
		}
		o.WithData = cmd.Flags().Changed("data")
		return edit.Install(&e, args[0], o)
	})
	cmd.Flags().StringVar(&o.File, "file", "", "Change this `file` of the client. (default the file that the client reads on this system)")
	cmd.Flags().StringVar(&o.Project, "project", "", "Change the client's file of the project in this `folder`, which all who work in it may share. By default the user's file is changed.")
	addWriteFlag(cmd, &e)
	cmd.Flags().BoolVar(&o.Each, "each", false, "Add an entry for each server, which shows it as itself, in place of the client's own entry of that server and of the one for all. By default one entry shows all servers.")
	cmd.Flags().StringSliceVar(&o.Only, "only", nil, "With --each, add entries for the `servers` with these names, with commas between them. (default all that run)")
	cmd.Flags().BoolVar(&o.Undo, "undo", false, "Put back the client's own entries that --each and --replace have replaced or removed, byte for byte, and remove those that they have added. By default nothing is put back.")
	cmd.Flags().BoolVar(&o.Replace, "replace", false, "Remove the client's other entries of servers that metarouter has. An entry that was not imported, or has changed since, stays, with a note that says why. By default all stay.")
	cmd.MarkFlagsMutuallyExclusive("each", "undo", "replace")
	cmd.MarkFlagsMutuallyExclusive("file", "project")
	return cmd
}
