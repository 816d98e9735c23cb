package server

import (
	"context"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/server/internal/catalog"
	"github.com/mcp-metarouter/metarouter/server/internal/httpd"
)

// How tools are named towards clients.
const (
	Prefixed = catalog.Prefixed // server__tool
	Bare     = catalog.Bare     // tool, where only one server has it
)

// ToolNames maps tools to the names that clients see, and back. It is immutable.
type ToolNames = catalog.ToolNames

// A NameError says that a name means no tool or prompt, or several.
type NameError = catalog.NameError

// NewNames names the tools, a slice that must not be modified any more, in the given style, Prefixed or Bare. The separator is
// "__" if empty. The prefix is one that callers may put before any name; "" is none.
func NewNames(tools []*registry.NormalizedTool, style, separator, prefix string) *ToolNames {
	return catalog.NewNames(tools, style, separator, prefix)
}

// IsOwn reports whether one of the router's own tools has the name.
func IsOwn(name string) bool { return catalog.IsOwn(name) }

// Split returns the server that a name such as server:tool begins with, and the rest
// of the name.
func Split(name, separator string, servers []adapter.ServerInfo) (server, tool string, ok bool) {
	return catalog.Split(name, separator, servers)
}

// Resolve finds the tool that a name of any form means. If the name begins with a
// server's, that server may have tools that the catalog does not know: Resolve waits
// for the server, which may start it, and fails with an error that wraps
// [session.ErrNotSent] if it can't be called. For any other name, Resolve calls
// settle, which waits for servers that were never listed and reports whether the
// catalog has changed. names returns the names of the latest catalog.
func Resolve(ctx context.Context, servers catalog.Servers, name string, names func() *ToolNames, settle func() (changed bool)) (*registry.NormalizedTool, error) {
	return catalog.Resolve(ctx, servers, name, names, settle)
}

// ServerRows returns the rows of the servers, never nil.
func ServerRows(servers []adapter.ServerInfo) []ServerRow { return httpd.ServerRows(servers) }
