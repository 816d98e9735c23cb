package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/clients"
)

// noteLogin names servers that may need a login.
func noteLogin(env *environment, names []string) {
	if len(names) > 0 {
		env.note("note: may need a login in the browser (OAuth), once for all clients: %s", strings.Join(names, ", "))
	}
}

// offerLogin offers the logins at servers of the configuration files that were just written: on a
// terminal it asks once, else it prints the commands. A login that fails is no error.
func offerLogin(ctx context.Context, env *environment, files, names []string) error {
	if len(names) == 0 {
		return nil
	}
	if !canAsk(env) {
		for _, name := range names {
			env.note("next: metarouter login %s%s", clients.Word(name), configFlags(env))
		}
		return nil
	}
	line, err := readLine(env)(ctx, func() {
		fmt.Fprintf(env.stderr, "Log in to %s now? [y/N]\n", strings.Join(names, ", "))
	})
	switch {
	case errors.Is(err, io.EOF):
	case err != nil:
		return errInterrupted
	}
	yes := strings.HasPrefix(strings.ToLower(strings.TrimSpace(line)), "y")
	here := *env
	here.configs = files
	for _, name := range names {
		if yes {
			err := runLogin(ctx, &here, name, loginOptions{})
			if ctx.Err() != nil {
				return errInterrupted
			}
			if err == nil {
				continue
			}
			env.note("%v", err)
		}
		env.note("to log in later: metarouter login %s%s", clients.Word(name), configFlags(env))
	}
	return nil
}
