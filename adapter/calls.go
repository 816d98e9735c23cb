package adapter

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/mcp-metarouter/metarouter/adapter/internal/scope"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

// calls are searches, calls of tools and other requests to servers.
type calls struct{ scoped }

// Find ranks the tools that suit a query.
func (c calls) Find(ctx context.Context, q selector.Query) (selector.Ranking, error) {
	return c.router.selector.Find(ctx, c.scope.Visible().Query(q))
}

// Select picks the tool for a query.
func (c calls) Select(ctx context.Context, q selector.Query) (selector.Selection, error) {
	return c.router.selector.Select(ctx, c.scope.Visible().Query(q))
}

// Plan implements [selector.Provider].
func (c calls) Plan(ctx context.Context, q selector.Query) ([]selector.Step, error) {
	return c.router.selector.Plan(ctx, c.scope.Visible().Query(q))
}

// Explain returns the parts of the scores of tools that were found for a task.
func (c calls) Explain(ctx context.Context, task string, candidates []selector.Candidate) ([]selector.Explanation, error) {
	return c.router.selector.Explain(ctx, task, candidates)
}

// Check implements [selector.Provider]. Arguments of a tool that the clients may not call have one
// fault.
func (c calls) Check(ctx context.Context, t *registry.NormalizedTool, args json.RawMessage) selector.Checked {
	if t.Server != "" { // else it is the router's own
		if err := c.scope.Visible().Callable(t); err != nil {
			return selector.Checked{Arguments: args, Faults: []string{err.Error()}}
		}
	}
	return c.router.executor.Check(ctx, t, args)
}

// Execute runs a tool of the snapshot.
func (c calls) Execute(ctx context.Context, call selector.Call) (selector.Result, error) {
	v := c.scope.Visible()
	call.Profile, call.Rules = v.Profile, v.Encoded
	made := call
	call = c.loggingIn(v, call)
	if v.Rules != nil {
		if err := v.Callable(call.Tool); err != nil {
			return selector.Result{}, err
		}
		call.Catalog = v.Snapshot
	}
	ctx, err := withScript(ctx, c, made)
	if err != nil {
		return selector.Result{}, err
	}
	if v.Rules != nil {
		call = c.askingFirst(v, call)
	}
	return c.router.executor.Execute(ctx, call)
}

// Relay sends a request about prompts, resources or tasks to a server. The error is a
// [*session.Error], or the cause of ctx's end.
func (c calls) Relay(ctx context.Context, server string, r Request) (json.RawMessage, error) {
	v := c.scope.Visible()
	if err := v.Relayable(server, r); err != nil {
		return nil, err
	}
	if v.Config.Router.Cluster != nil {
		who, _ := session.CallerOf(r.From)
		r.Origin = session.NewOrigin(v.Profile, v.Encoded, who.Principal, who.Name)
	}
	result, err := c.router.executor.Relay(ctx, server, r)
	if helps, why := c.loggedIn(ctx, r.From, err); helps {
		if why != nil {
			return nil, why
		}
		if err := c.scope.Visible().Relayable(server, r); err != nil { // an edit may have changed that meanwhile
			return nil, err
		}
		result, err = c.router.executor.Relay(ctx, server, r)
	}
	if r.Method == "resources/read" {
		err = v.Hide(server, scope.Text(r.Params, "uri"), err)
	}
	return result, err
}

// loggedIn is LogIn for a request that has ended with err, which may be nil. Its error is a
// [*session.Error], or the cause of ctx's end.
func (c calls) loggedIn(ctx context.Context, from Client, err error) (helps bool, why error) {
	if err == nil {
		return false, nil
	}
	helps, why = c.LogIn(ctx, from, err)
	if _, ok := errors.AsType[*session.Error](why); why != nil && !ok && ctx.Err() == nil {
		why = &session.Error{Code: session.CodeInternal, Message: why.Error()}
	}
	return helps, why
}
