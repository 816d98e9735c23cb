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
	cmd.Long = `Approves FILE, or the .mcp.json of the current folder, and prints what it says: all
but limits and other settings that do no harm, as it is written, with variables not
replaced by their values. Approve it again after each edit.`
	return cmd
}

func runTrust(env *environment, path string) error {
	c, err := config.LoadText(path)
	if err != nil {
		return usage(unreadable(err))
	}
	if err := c.Trust(env.data); err != nil {
		return err
	}
	_, err = fmt.Fprintf(env.stdout, "%s is trusted. If it changes, run 'metarouter trust' again. It says:\n%s", trust.Quote(c.Files[0]), trust.Describe(c))
	return err
}

// requireTrust makes sure that a configuration that --config does not name may be used:
// it was approved before, or the user approves it at the terminal now. It returns the
// configuration with its variables expanded.
func requireTrust(ctx context.Context, env *environment, c config.Config) (config.Config, error) {
	switch trusted, err := c.Trusted(env.data); {
	case err != nil:
		return c, usage(err)
	case trusted:
		return c.Expand(), nil
	}
	path := c.Files[0]
	if !isTerminal(env.stdin) || !isTerminal(env.streams[2]) {
		return c, usage(fmt.Errorf("%s is not trusted: it was found in this folder and runs commands, or its servers changed since you approved it; read it, then run 'metarouter trust', or name it with --config %s", path, path))
	}
	switch yes, err := trust.Ask(ctx, env.stdin, env.stderr, c); {
	case err != nil:
		return c, errInterrupted
	case !yes:
		return c, usage(errors.New("not trusted, nothing was started"))
	}
	if env.data == "" {
		return c.Expand(), nil // approved for this run only
	}
	return c.Expand(), c.Trust(env.data)
}
