package main

import (
	"context"
	"os"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/internal/builtin"
	"github.com/mcp-metarouter/metarouter/supervisor"
)

func (a *app) builtin() *cobra.Command {
	return leaf("builtin NAME [ARGUMENT…]", "Be a bundled stdio server: "+strings.Join(builtin.Names(), " or "),
		`  metarouter builtin utilities
  metarouter builtin files ./docs`,
		cobra.MinimumNArgs(1), func(ctx context.Context, args []string) error {
			s, err := builtin.New(args[0], args[1:])
			if err != nil {
				return usage(err)
			}
			return s.Run(ctx, &mcp.StdioTransport{})
		})
}

// guard is how the router starts its guard process, and servers behind a gate;
// people have no use for it.
func (a *app) guard() *cobra.Command {
	cmd := leaf("guard", "Kill servers whose router has died", "", cobra.ArbitraryArgs,
		func(_ context.Context, args []string) error {
			if len(args) > 1 && args[0] == "--" {
				return supervisor.Gate(args[1:])
			}
			supervisor.Guard(os.Stdin)
			return nil
		})
	cmd.Hidden, cmd.DisableFlagParsing = true, true
	return cmd
}
