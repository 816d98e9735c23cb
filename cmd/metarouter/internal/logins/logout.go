package logins

import (
	"context"
	"fmt"
	"maps"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/oneshot"
	"github.com/mcp-metarouter/metarouter/config"
)

// LogOut forgets the login at a server, and has its issuer revoke the tokens.
func LogOut(ctx context.Context, local *oneshot.Runner, name string) error {
	out := local.Files.Console
	c, err := local.Files.Load(ctx)
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
	return local.Run(ctx, only(c, entry), func(ctx context.Context, r *adapter.Parts) error {
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
			out.Note("there is no login at %s", name)
			return nil
		}
		out.Say("Logged out of %s.", name)
		return nil
	})
}
