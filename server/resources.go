package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/session"
)

// codeResourceNotFound is what servers before 2026-07-28 answer.
const codeResourceNotFound = -32002

// locate returns where to ask for a resource: the servers that list it, or whose
// templates it fits, or else all that have any, to be tried one after the other.
func (s *Server) locate(ctx context.Context, uri string) ([]address, error) {
	if uri == "" {
		return nil, invalidParams("the uri is missing")
	}
	found := s.view().locate(uri, s.router.Servers())
	if len(found) == 0 && s.settle(ctx, s.view().snapshot) {
		found = s.view().locate(uri, s.router.Servers())
	}
	if len(found) == 0 {
		return nil, notFound(uri)
	}
	return found, nil
}

func notFound(uri string) error {
	return &session.Error{Code: session.CodeInvalidParams, Message: "resource not found: no server knows " + uri, Data: uriParams(uri)}
}

func uriParams(uri string) json.RawMessage {
	return append(wire.AppendString([]byte(`{"uri":`), uri), '}')
}

func (v *view) locate(uri string, servers []adapter.ServerInfo) []address {
	if at, ok := v.addresses[uri]; ok {
		return []address{at}
	}
	if at, ok := parseQualified(uri); ok {
		return []address{at}
	}
	var found []address
	for _, t := range v.templates {
		if t.pattern.Match(uri) != nil && !slices.Contains(found, address{t.server, uri}) {
			found = append(found, address{t.server, uri})
		}
	}
	if len(found) > 0 {
		return found
	}
	for _, i := range servers {
		if wire.Member(v.snapshot.Offer(i.Name).Capabilities, "resources") != nil {
			found = append(found, address{i.Name, uri})
		}
	}
	return found
}

func readResource(ctx context.Context, c *call) (json.RawMessage, error) {
	uri, err := c.text("uri")
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(uri, resultScheme) {
		return c.server.readKept(uri, c)
	}
	found, err := c.server.locate(ctx, uri)
	if err != nil {
		return nil, err
	}
	var result json.RawMessage
	for _, at := range found {
		result, err = c.relay(ctx, at.server, wire.SetMember(c.bare(), "uri", wire.AppendString(nil, at.uri)))
		if err == nil {
			return renamed(result, at.uri, uri), nil
		}
		if e, ok := errors.AsType[*session.Error](err); !ok || e.Code != session.CodeInvalidParams && e.Code != codeResourceNotFound {
			break
		}
	}
	if e, ok := errors.AsType[*session.Error](err); ok && e.Code == codeResourceNotFound && c.modern {
		err = &session.Error{Code: session.CodeInvalidParams, Message: e.Message, Data: uriParams(uri)}
	}
	return nil, err
}

// renamed returns the result of a read with the URI by which the client knows the
// resource.
func renamed(result json.RawMessage, theirs, ours string) json.RawMessage {
	if theirs == ours {
		return result
	}
	var contents []json.RawMessage
	if json.Unmarshal(wire.Member(result, "contents"), &contents) != nil {
		return result
	}
	for i, content := range contents {
		if uri, ok := wire.String(wire.Member(content, "uri")); ok && uri == theirs {
			contents[i] = wire.SetMember(content, "uri", wire.AppendString(nil, ours))
		}
	}
	return wire.SetMember(result, "contents", wire.Marshal(contents))
}

// subscribe tells a legacy client of a resource's changes.
func subscribe(ctx context.Context, c *call) (json.RawMessage, error) {
	uri, err := c.text("uri")
	if err != nil {
		return nil, err
	}
	if c.visitor {
		return nil, &session.Error{Code: session.CodeInvalidRequest, Message: "a subscription needs a session"}
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	known, err := c.remember(uri, stop)
	if known || err != nil {
		stop()
		return json.RawMessage("{}"), err
	}
	tell := func(m session.Message) { c.conversation.Notify("", m) }
	if err := c.server.watch(ctx, life, &c.running, c.conversation, uri, tell); err != nil {
		c.forget(uri)
		return nil, err
	}
	return json.RawMessage("{}"), nil
}

// remember keeps what ends a legacy subscription, and reports whether there is
// one already.
func (c *conversation) remember(uri string, stop context.CancelFunc) (known bool, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known = c.watches[uri]; known {
		return true, nil
	}
	if c.closed || len(c.watches) >= maxSubscriptions {
		return false, &session.Error{Code: session.CodeInternal, Message: fmt.Sprintf("a client can have %d subscriptions", maxSubscriptions)}
	}
	c.watches[uri] = stop
	return false, nil
}

func unsubscribe(_ context.Context, c *call) (json.RawMessage, error) {
	uri, err := c.text("uri")
	if err != nil {
		return nil, err
	}
	c.forget(uri)
	return json.RawMessage("{}"), nil
}

// forget ends a legacy subscription.
func (c *conversation) forget(uri string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if stop := c.watches[uri]; stop != nil {
		stop()
		delete(c.watches, uri)
	}
}
