package tools

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/mcp-metarouter/metarouter/internal/script/host"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

// A runner runs tools of servers on behalf of clients.
type runner struct {
	*Options
	results *results
	held    held
}

// run runs a tool of a server for the client.
func (r *runner) run(ctx context.Context, tool *registry.NormalizedTool, args json.RawMessage, c *toolCall) (json.RawMessage, error) {
	if r.Scripts != nil && r.Scripts.IsScript(tool) {
		return r.script(ctx, c, tool, func(ctx context.Context, c *toolCall, run host.Run) (json.RawMessage, error) {
			call := run.Call
			call.Arguments = args
			within, call := run.AsCall(ctx, call)
			result, err := r.Router.Execute(within, call)
			return r.finish(c, tool, result, err)
		})
	}
	result, err := r.Router.Execute(ctx, r.callOf(c, tool, args))
	return r.finish(c, tool, result, err)
}

// callOf returns the call of a tool on behalf of the client.
func (r *runner) callOf(c *toolCall, tool *registry.NormalizedTool, args json.RawMessage) selector.Call {
	call := selector.Call{Tool: tool, Arguments: args, Meta: c.ServerMeta(), From: c.From, Principal: c.Principal, PrincipalName: c.PrincipalName, Repaired: c.repaired}
	if c.More {
		call.Params = c.Params
	}
	if r.Observer != nil {
		call.Client = c.ClientName()
	}
	return call
}

// finish returns the answer to a call of the tool, which has ended with the result
// or the error. It marks c as executed.
func (r *runner) finish(c *toolCall, tool *registry.NormalizedTool, result selector.Result, err error) (json.RawMessage, error) {
	c.executed = true
	if c.Plain && len(result.Mismatch) > 0 {
		return nil, mismatched(tool, "do not fit", result.Mismatch, wire.Member(result.JSON, "_meta"))
	}
	if result.Tool != nil {
		tool = result.Tool
	}
	answer := r.Linked(c.Owner(), tool.Server, result.JSON)
	return r.limited(r.Tasks.Expose(c.Principal, tool.ID, answer), result.Limit, tool.ID, c.Owner()), err
}

// find returns the tool of the name. If its server was never listed and needs a login, the
// client's person is asked to log in. The error is the catalog's, or says why there is no
// login: a [*session.Error] is for the client as it is.
func (r *runner) find(ctx context.Context, name string, from session.Client) (*registry.NormalizedTool, error) {
	tool, err := r.Catalog.Tool(ctx, name)
	if !errors.Is(err, session.ErrNotSent) {
		return tool, err
	}
	helps, why := r.Router.LogIn(ctx, from, err)
	switch {
	case !helps:
		return nil, err
	case why != nil:
		return nil, why
	}
	return r.Catalog.Tool(ctx, name)
}
