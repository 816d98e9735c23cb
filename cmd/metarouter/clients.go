package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/edit"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/service"
)

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
	e, o := editorOf(local), edit.ImportOptions{}
	cmd := newCommand("import", oneClient, func(ctx context.Context, args []string) error {
		return edit.Import(ctx, &e, args[0], o)
	})
	cmd.Flags().StringVar(&o.File, "file", "", "Read the servers from this `file` of the client. (default the file that the client reads on this system)")
	cmd.Flags().StringVar(&o.Project, "project", "", "Take the servers of the project in this `folder`. By default those of the user are taken.")
	addWriteFlag(cmd, &e)
	cmd.Flags().BoolVar(&o.Overwrite, "overwrite", false, "Where you have another server of the same name, take the client's. By default yours stays.")
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
