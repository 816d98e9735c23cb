package adapter

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/mcp-metarouter/metarouter/internal/approval"
	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// Approvals returns the desk with the calls that wait for a person's approval.
func (p *Parts) Approvals() *Desk { return p.router.approvals }

// askingFirst returns the call so that a person is asked before it is made, if the rules, which
// v has, ask for that.
func (s *Scope) askingFirst(v *visible, c Call) Call {
	reason := v.rules.Asks(c.Tool).String()
	if reason == "" {
		unfit := c.Unfit
		c.Unfit = func(t *NormalizedTool) bool {
			return v.rules.Asks(t).String() != "" || unfit != nil && unfit(t) // no one would be asked
		}
		return c
	}
	client := c.Client
	if client == "" && c.From != nil {
		client = c.From.ClientName()
	}
	c.Approve = func(ctx context.Context, args json.RawMessage) error {
		r := approval.Request{
			Principal: c.Principal, Called: c.PrincipalName, Profile: v.profile, Client: client,
			Server: c.Tool.Server, Tool: c.Tool.ServerName(), Definition: c.Tool.Definition, Arguments: args, Others: othersOf(c.Params),
			Reason: reason, Policy: v.rules.Identity(),
		}
		if err := s.parts.Approvals().Ask(audit.By(ctx, actorOf(c.From)), r, approval.PersonAt(c.From)); err != nil {
			return err
		}
		now := s.now() // the answer was about the rules and the tool as they were before
		if now.rules != v.rules {
			return fmt.Errorf("%s was not run: the profile was edited while a person was asked; send the call again", r.Name())
		}
		return now.callable(c.Tool)
	}
	return c
}

// actorOf returns who is behind a client.
func actorOf(from Client) audit.Actor {
	who, ok := session.CallerOf(from)
	switch {
	case !ok:
		return audit.Actor{} // a command
	case who.OverHTTP:
		return audit.Actor{Principal: cmp.Or(who.Name, who.Principal), From: "http"}
	}
	return audit.Actor{Principal: who.Name, From: "stdio"}
}

// othersOf returns the parameters of a tools/call that servers get besides the name and the
// arguments, but for _meta; nil if there are none.
func othersOf(params json.RawMessage) json.RawMessage {
	var others []byte
	_ = wire.Members(params, func(key string, value []byte) bool {
		if key != "name" && key != "arguments" && key != "_meta" {
			others = append(append(wire.AppendString(append(others, ','), key), ':'), value...)
		}
		return true
	})
	if others == nil {
		return nil
	}
	others[0] = '{'
	return append(others, '}')
}
