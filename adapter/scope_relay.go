package adapter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
)

// Relay is that of [Parts], for servers, prompts and resources that the clients may see.
func (s *Scope) Relay(ctx context.Context, server string, r Request) (json.RawMessage, error) {
	v := s.now()
	if err := v.relayable(server, r); err != nil {
		return nil, err
	}
	if v.setup.config.Router.Cluster != nil {
		who, _ := session.CallerOf(r.From)
		r.Origin = session.NewOrigin(v.profile, v.encoded, who.Principal, who.Name)
	}
	result, err := s.parts.Relay(ctx, server, r)
	if helps, why := s.loggedIn(ctx, r.From, err); helps {
		if why != nil {
			return nil, why
		}
		if err := s.now().relayable(server, r); err != nil { // an edit may have changed that meanwhile
			return nil, err
		}
		result, err = s.parts.Relay(ctx, server, r)
	}
	if r.Method == "resources/read" {
		err = v.unknown(server, text(r.Params, "uri"), err)
	}
	return result, err
}

// loggedIn is LogIn for a request that has ended with err, which may be nil. Its error is a
// [*session.Error], or the cause of ctx's end.
func (s *Scope) loggedIn(ctx context.Context, from Client, err error) (helps bool, why error) {
	if err == nil {
		return false, nil
	}
	helps, why = s.LogIn(ctx, from, err)
	if _, ok := errors.AsType[*session.Error](why); why != nil && !ok && ctx.Err() == nil {
		why = &session.Error{Code: session.CodeInternal, Message: why.Error()}
	}
	return helps, why
}

// relayable returns the error of a request that concerns something that does not exist for the
// clients, or nil. A method that it does not know concerns nothing that exists.
func (v *visible) relayable(server string, r Request) error {
	if v.rules == nil {
		return nil
	}
	if !v.server(server) {
		return &session.Error{Code: session.CodeInternal, Message: noServer(server).Error()}
	}
	switch r.Method {
	case "tasks/get", "tasks/update", "tasks/cancel":
		return nil
	case "resources/read":
		if uri := text(r.Params, "uri"); !v.uri(server, uri) {
			return noResource(uri)
		}
		return nil
	case "prompts/get":
		return v.prompt(server, text(r.Params, "name"))
	case "completion/complete":
		ref := wire.Member(r.Params, "ref")
		if text(ref, "type") == "ref/prompt" {
			return v.prompt(server, text(ref, "name"))
		}
		if uri := text(ref, "uri"); len(v.snapshot.Items(registry.ID(server, uri))) == 0 && !v.uri(server, uri) {
			return noResource(uri)
		}
		return nil
	}
	return &session.Error{Code: session.CodeMethodNotFound, Message: "unknown method " + r.Method}
}

// prompt returns the error of a request for a prompt that does not exist for the clients, or nil.
func (v *visible) prompt(server, name string) error {
	id := registry.ID(server, name)
	for _, i := range v.snapshot.Items(id) {
		if i.Prompt != nil {
			return nil
		}
	}
	return &session.Error{Code: session.CodeInvalidParams, Message: fmt.Sprintf("unknown prompt %q", id)}
}

// codeResourceNotFound is what servers before 2026-07-28 answer.
const codeResourceNotFound = -32002

// unknown returns err, or the error of a resource that is not allowed instead of the server's own
// words for one that does not exist: nothing tells the two apart.
func (v *visible) unknown(server, uri string, err error) error {
	e, ok := errors.AsType[*session.Error](err)
	if v.rules == nil || !ok || e.Code != session.CodeInvalidParams && e.Code != codeResourceNotFound {
		return err
	}
	for _, i := range v.snapshot.Items(registry.ID(server, uri)) {
		if i.Resource != nil {
			return err // the clients know that it exists
		}
	}
	return noResource(uri)
}

// noResource is the error of a request for a resource that does not exist for the clients.
func noResource(uri string) error {
	return &session.Error{
		Code: session.CodeInvalidParams, Message: "resource not found: no server knows " + uri,
		Data: append(wire.AppendString([]byte(`{"uri":`), uri), '}'),
	}
}

// text returns a member that is a string, or "".
func text(object json.RawMessage, key string) string {
	value, _ := wire.String(wire.Member(object, key))
	return value
}
