package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/cli"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/config"
)

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
