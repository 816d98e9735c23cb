package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/exit"
)

// noteLogin names servers that may need a login.
func noteLogin(env *environment, names []string) {
	if len(names) > 0 {
		env.Note("note: may need a login in the browser (OAuth), once for all clients: %s", strings.Join(names, ", "))
	}
}

// offerLogin offers the logins at servers of the configuration files that were just written: on a
// terminal it asks once, else it prints the commands. A login that fails is no error.
func offerLogin(ctx context.Context, env *environment, files, names []string) error {
	if len(names) == 0 {
		return nil
	}
	if !env.CanAsk() {
		for _, name := range names {
			env.Note("next: metarouter login %s%s", clients.Word(name), env.files.Flags())
		}
		return nil
	}
	yes, err := env.Confirm(ctx, fmt.Sprintf("Log in to %s now? [y/N]", strings.Join(names, ", ")))
	if err != nil {
		return exit.Interrupted
	}
	here := newEnvironment(env.Console)
	here.files.Data, here.files.Paths, here.local.Debug = env.files.Data, files, env.local.Debug
	for _, name := range names {
		if yes {
			err := runLogin(ctx, here, name, loginOptions{})
			if ctx.Err() != nil {
				return exit.Interrupted
			}
			if err == nil {
				continue
			}
			env.Note("%v", err)
		}
		env.Note("to log in later: metarouter login %s%s", clients.Word(name), env.files.Flags())
	}
	return nil
}
