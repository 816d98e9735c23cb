package adapter

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/mcp-metarouter/metarouter/adapter/internal/scope"
	"github.com/mcp-metarouter/metarouter/internal/approval"
	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

// askingFirst returns the call so that a person is asked before it is made, if the rules, which
// v has, ask for that.
func (c calls) askingFirst(v *scope.Visible, call selector.Call) selector.Call {
	reason := v.Rules.Asks(call.Tool).String()
	if reason == "" {
		unfit := call.Unfit
		call.Unfit = func(t *registry.NormalizedTool) bool {
			return v.Rules.Asks(t).String() != "" || unfit != nil && unfit(t) // no person would be asked
		}
		return call
	}
	if call.Script != "" {
		reason += fmt.Sprintf("; line %d of a script calls it", call.Line)
	}
	client := call.Client
	if client == "" && call.From != nil {
		client = call.From.ClientName()
	}
	call.Approve = func(ctx context.Context, args json.RawMessage) error {
		r := approval.Request{
			Principal: call.Principal, Called: call.PrincipalName, Profile: v.Profile, Client: client,
			Server: call.Tool.Server, Tool: call.Tool.ServerName(), Definition: call.Tool.Definition, Arguments: args, Others: call.Others(),
			Reason: reason, Policy: v.Rules.Identity(), Script: call.Script,
		}
		r.Page, _ = session.As[approval.PageWaiter](call.From)
		if err := c.router.approvals.Ask(audit.By(ctx, actorOf(call.From)), r, approval.PersonAt(call.From, call.Script)); err != nil {
			return err
		}
		now := c.scope.Visible() // the answer was about the rules and the tool as they were before
		if now.Rules != v.Rules {
			return fmt.Errorf("%s was not run: the profile was edited while a person was asked; send the call again", r.Name())
		}
		return now.Callable(call.Tool)
	}
	return call
}

// actorOf returns the actor for the audit log.
func actorOf(from session.Client) audit.Actor {
	who, ok := session.CallerOf(from)
	switch {
	case !ok:
		return audit.Actor{} // a command
	case who.OverHTTP:
		return audit.Actor{Principal: cmp.Or(who.Name, who.Principal), From: "http"}
	}
	return audit.Actor{Principal: who.Name, From: "stdio"}
}
