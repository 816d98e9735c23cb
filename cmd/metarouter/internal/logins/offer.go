package logins

import (
	"context"
	"fmt"
	"strings"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/oneshot"
)

// Note names servers that may need a login.
func Note(out *console.Console, names []string) {
	if len(names) > 0 {
		out.Note("note: may need a login in the browser (OAuth), once for all clients: %s", strings.Join(names, ", "))
	}
}

// Offer offers the logins at servers of the configuration files that were just written: on a
// terminal it asks once, else it prints the commands. A login that fails is no error.
func Offer(ctx context.Context, local *oneshot.Runner, files, names []string) error {
	out := local.Files.Console
	if len(names) == 0 {
		return nil
	}
	if !out.CanAsk() {
		for _, name := range names {
			out.Note("next: metarouter login %s%s", clients.Word(name), local.Files.Flags())
		}
		return nil
	}
	yes, err := out.Confirm(ctx, fmt.Sprintf("Log in to %s now? [y/N]", strings.Join(names, ", ")))
	if err != nil {
		return exit.Interrupted
	}
	there := *local.Files
	there.Paths = files
	for _, name := range names {
		if yes {
			err := LogIn(ctx, &oneshot.Runner{Files: &there, Version: local.Version, Debug: local.Debug}, name, Options{})
			if ctx.Err() != nil {
				return exit.Interrupted
			}
			if err == nil {
				continue
			}
			out.Note("%v", err)
		}
		out.Note("to log in later: metarouter login %s%s", clients.Word(name), local.Files.Flags())
	}
	return nil
}
