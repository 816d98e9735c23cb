package main

import (
	"context"
	"fmt"
	"maps"

	"github.com/spf13/cobra"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
	"github.com/mcp-metarouter/metarouter/config"
)

func newLogoutCommand(env *environment) *cobra.Command {
	cmd := newCommand("logout NAME", "End the login at a remote server, for all clients",
		"  metarouter logout linear",
		exactly("name one server; 'metarouter servers' lists all"),
		func(ctx context.Context, args []string) error { return runLogout(ctx, env, args[0]) })
	cmd.Long = `Forgets the login at a remote server, and has its issuer revoke the tokens. Routers that run stop
using it at once. If the issuer does not revoke the tokens, the exit code is 1, and the login is forgotten all the same.`
	return cmd
}

func runLogout(ctx context.Context, env *environment, name string) error {
	c, err := loadConfig(ctx, env)
	if err != nil {
		return err
	}
	entry, err := configfile.Server(c, name)
	if err != nil {
		return err
	}
	if entry.Transport == config.Stdio {
		return exit.Usage(fmt.Errorf("%s is a program on this machine; metarouter has no login for it", name))
	}
	if header := ownHeader(entry); header != "" { // it may have come after the login
		entry.Headers = maps.Clone(entry.Headers)
		delete(entry.Headers, header)
	}
	return env.local.Run(ctx, only(c, entry), func(ctx context.Context, r *adapter.Parts) error {
		bounded, cancel := context.WithTimeout(ctx, beginTime)
		defer cancel()
		was, err := r.Logout(bounded, name)
		switch {
		case ctx.Err() != nil:
			return exit.Interrupted
		case was && err != nil:
			return fmt.Errorf("logged out of %s, but its tokens may still be valid: %w; to revoke them, see the settings of your account there", name, err)
		case err != nil:
			return fmt.Errorf("the login at %s could not be ended: %w", name, err)
		case !was:
			env.Note("there is no login at %s", name)
			return nil
		}
		env.Say("Logged out of %s.", name)
		return nil
	})
}
