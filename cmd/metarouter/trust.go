package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/trust"
	"github.com/mcp-metarouter/metarouter/config"
)

func newTrustCommand(env *environment) *cobra.Command {
	cmd := newCommand("trust [FILE]", "Approve the .mcp.json of a project, so that metarouter may run its commands",
		`  metarouter trust
  metarouter trust ../other/.mcp.json`,
		arguments(0, 1, "name at most one file"), func(_ context.Context, args []string) error {
			path := ".mcp.json"
			if len(args) == 1 {
				path = args[0]
			}
			return runTrust(env, path)
		})
	cmd.Long = `Approves FILE, or the .mcp.json of the current folder, and prints the commands that
its servers run. Approve it again after each edit of its servers.`
	return cmd
}

func runTrust(env *environment, path string) error {
	c, err := config.Load(path)
	if err != nil {
		return usage(unreadable(err))
	}
	if err := c.Trust(env.data); err != nil {
		return err
	}
	fmt.Fprintf(env.stdout, "%s is trusted. If its servers change, run 'metarouter trust' again. It runs:\n%s", c.Files[0], trust.Describe(c))
	return nil
}

// requireTrust makes sure that a configuration that --config does not name may be used:
// it was approved before, or the user approves it at the terminal now.
func requireTrust(ctx context.Context, env *environment, c config.Config) error {
	if c.Trusted(env.data) {
		return nil
	}
	path := c.Files[0]
	if !isTerminal(env.stdin) || !isTerminal(env.stderr) {
		return usage(fmt.Errorf("%s is not trusted: it was found in this folder and runs commands, or its servers changed since you approved it; read it, then run 'metarouter trust', or name it with --config %s", path, path))
	}
	switch yes, err := trust.Ask(ctx, env.stdin, env.stderr, c); {
	case err != nil:
		return errInterrupted
	case !yes:
		return usage(errors.New("not trusted, nothing was started"))
	}
	if env.data == "" {
		return nil // approved for this run only
	}
	return c.Trust(env.data)
}
