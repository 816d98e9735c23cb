package exposure

import (
	"context"
	"errors"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/registry"
)

// A Waiter waits for servers with tools that may not be known yet.
type Waiter interface {
	// Servers returns the state of each server of the configuration.
	Servers() []status.Server

	// Await returns when the server can be called. Its error wraps
	// [session.ErrNotSent] and says why the server can't be called.
	Await(ctx context.Context, server string) error
}

// Resolve finds the tool that a name of any form means. If the name begins with a
// server's, that server may have tools that the catalog does not know: Resolve
// waits for the server, which may start it, and fails with an error that wraps
// [session.ErrNotSent] if it can't be called. For any other name, Resolve calls
// settle, which waits for servers that were never listed and reports whether the
// catalog has changed. names returns the names of the latest catalog.
func Resolve(ctx context.Context, servers Waiter, name string, names func() *ToolNames, settle func() (changed bool)) (*registry.NormalizedTool, error) {
	meant := names().Unprefixed(name, servers.Servers)
	tool, err := names().Resolve(meant)
	if e, ok := errors.AsType[*NameError](err); !ok || len(e.Ambiguous) > 0 {
		return tool, err
	}
	if server, _, ok := Split(meant, string(names().spelling), servers.Servers()); ok {
		if err := servers.Await(ctx, server); err != nil {
			return nil, err
		}
	} else if !settle() {
		return nil, err
	}
	return names().Resolve(names().Unprefixed(name, servers.Servers))
}

// Split returns the server that a name such as server:tool begins with, and the
// rest of it. Of several servers, it is the one with the longest name.
func Split(name, separator string, servers []status.Server) (server, tool string, ok bool) {
	for _, info := range servers {
		rest, begins := strings.CutPrefix(name, info.Name)
		if !begins {
			rest, begins = strings.CutPrefix(name, exposedServer(info.Name))
		}
		if !begins || len(info.Name) <= len(server) {
			continue
		}
		if rest, separated := spelling(separator).cut(rest); separated {
			server, tool, ok = info.Name, rest, true
		}
	}
	return server, tool, ok
}
