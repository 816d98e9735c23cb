package main

import (
	"context"
	"os"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
	"github.com/mcp-metarouter/metarouter/internal/builtin"
	"github.com/mcp-metarouter/metarouter/supervisor"
)

func newBuiltinCommand() *cobra.Command {
	return newCommand("builtin NAME [ARGUMENT…]", "Run a bundled stdio server: "+strings.Join(builtin.Names(), " or "),
		`  metarouter builtin utilities
  metarouter builtin files ./docs`,
		arguments(1, -1, "name the server: "+strings.Join(builtin.Names(), " or ")), func(ctx context.Context, args []string) error {
			s, err := builtin.New(args[0], args[1:])
			if err != nil {
				return exit.Usage(err)
			}
			return s.Run(ctx, &mcp.StdioTransport{})
		})
}

// newGuardCommand returns the command by which the router starts its process guard. It is
// not for people.
func newGuardCommand() *cobra.Command {
	cmd := newCommand("guard", "Start servers for a router, and kill them if it dies", "", cobra.ArbitraryArgs,
		func(context.Context, []string) error {
			supervisor.RunGuard(os.Stdin)
			return nil
		})
	cmd.Hidden, cmd.DisableFlagParsing = true, true
	return cmd
}
