package logins

import (
	"context"
	"fmt"
	"maps"
	"strings"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/service"
	"github.com/mcp-metarouter/metarouter/internal/commandline"
)

// Offer offers the logins at servers of the configuration files that were just written: on a
// terminal it asks once, else it prints the commands. A login that fails is no error.
func Offer(ctx context.Context, local *service.Runner, files, names []string) error {
	out := local.Files.Console
	if len(names) == 0 {
		return nil
	}
	if !out.CanAsk() {
		for _, name := range names {
			out.Note("next: metarouter login %s%s", commandline.Quote(name), local.Files.Flags())
		}
		return nil
	}
	yes, err := out.Confirm(ctx, fmt.Sprintf("Log in to %s now? [y/N]", strings.Join(names, ", ")))
	if err != nil {
		return console.Interrupted
	}
	there := *local.Files
	there.Paths = files
	for _, name := range names {
		if yes {
			err := LogIn(ctx, &service.Runner{Files: &there, Version: local.Version, Debug: local.Debug}, name, Options{})
			if ctx.Err() != nil {
				return console.Interrupted
			}
			if err == nil {
				continue
			}
			out.Note("%v", err)
		}
		out.Note("to log in later: metarouter login %s%s", commandline.Quote(name), local.Files.Flags())
	}
	return nil
}

// LogOut forgets the login at a server, and has its issuer revoke the tokens.
func LogOut(ctx context.Context, local *service.Runner, name string) error {
	out := local.Files.Console
	c, err := local.Files.Load(ctx)
	if err != nil {
		return err
	}
	entry, err := configfile.Server(c, name)
	if err != nil {
		return err
	}
	if entry.URL == "" {
		return console.Usage(fmt.Errorf("%s runs on this machine; metarouter has no login for it", name))
	}
	if header := ownHeader(entry); header != "" { // it may have come after the login
		entry.Headers = maps.Clone(entry.Headers)
		delete(entry.Headers, header)
	}
	return local.Run(ctx, only(c, entry), func(ctx context.Context, r *adapter.Parts) error {
		bounded, cancel := context.WithTimeout(ctx, beginTime)
		defer cancel()
		was, err := r.Logout(bounded, name, "")
		switch {
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
