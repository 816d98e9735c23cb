// Package inprocess has the parts of providers with tools in this process: a [Store] finds and runs
// them as the router does, and a [Server] is the session that the selector calls.
package inprocess

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/mcp-metarouter/metarouter/discovery"
	"github.com/mcp-metarouter/metarouter/internal/capability"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/taglist"
	"github.com/mcp-metarouter/metarouter/registry"
)

// ErrClosed is the error of a call to a provider that was closed before.
var ErrClosed = fmt.Errorf("the provider is closed: %w", session.ErrNotSent)

// ErrEnded is the error of a call that was running when its provider was closed.
var ErrEnded = errors.New("the provider was closed during the call")

// NoTool returns the error for a tool that a provider does not have. It wraps
// [session.ErrNotSent].
func NoTool(provider, id string) error {
	return fmt.Errorf("provider %q has no tool %q: %w", provider, id, session.ErrNotSent)
}

// A TimeoutError says that a tool took longer than its limit.
type TimeoutError struct {
	What  string
	Limit time.Duration
}

func (e *TimeoutError) Error() string {
	return fmt.Sprintf("%s did not answer within %s", e.What, e.Limit)
}

// NewTool returns the tool of an MCP tool definition, cleaned as tools of servers are, with the given
// capabilities and others that the taxonomy, which may be nil, infers.
func NewTool(provider string, x *capability.Taxonomy, definition any, capabilities []string) (registry.NormalizedTool, error) {
	encoded, err := json.Marshal(definition)
	if err != nil {
		return registry.NormalizedTool{}, err
	}
	tool, err := discovery.Normalize(provider, encoded, nil)
	if err != nil {
		return registry.NormalizedTool{}, err
	}
	tags := slices.Clone(capabilities)
	if x != nil {
		tags = append(tags, x.Infer(tool)...)
	}
	tool.Capabilities = taglist.Clean(tags)
	return tool, nil
}
