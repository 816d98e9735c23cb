package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/cli"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
)

func newTrustCommand(env *environment) *cobra.Command {
	var server string // --hints
	var show bool
	cmd := newCommand("trust [FILE]", "Approve the .mcp.json of a project, so that it may be used",
		`  metarouter trust
  metarouter trust ../other/.mcp.json
  metarouter trust --hints github`,
		arguments(0, 1, "name at most one file"), func(ctx context.Context, args []string) error {
			switch {
			case server != "" && len(args) > 0:
				return exit.Usage(errors.New("--hints confirms hints of a server's tools, and approves no file; --config names the file that has the server"))
			case server != "":
				return cli.ConfirmHints(ctx, env.asking(), server, show)
			case show:
				return exit.Usage(errors.New("--show is for --hints; 'metarouter check' shows what is wrong with a file"))
			}
			path := ".mcp.json"
			if len(args) == 1 {
				path = args[0]
			}
			return env.files.Trust(ctx, path)
		})
	cmd.Long = `Approves FILE, or the .mcp.json of the current folder, and prints what it says: all
but limits and other settings that do no harm, as it is written, with variables not
replaced by their values. What differs from the text that you approved before is marked,
and shown with its limits. On a terminal, it asks first. Approve the file again after each
edit.

With --hints it prints how hints of the server's tools changed since they were last
confirmed, such as readOnlyHint, and confirms them as they are known now: until then such a
tool does not count as one that only reads. It starts no server and approves no file.`
	cmd.Flags().StringVar(&server, "hints", "", "Confirm the hints (readOnlyHint, destructiveHint, idempotentHint) that tools of this `server` changed, instead of approving a file.")
	cmd.Flags().BoolVar(&show, "show", false, "With --hints, print only what changed, and confirm nothing. By default it is confirmed.")
	return cmd
}
