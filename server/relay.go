package server

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/content"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/server/internal/catalog"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
	"github.com/mcp-metarouter/metarouter/server/internal/tools"
)

// A relay passes requests on to the server that has the prompt, resource or task.
type relay struct {
	router  Router
	catalog *catalog.Catalog
	tasks   catalog.Tasks
	tools   *tools.Tools
}

// pass sends the request to a server, with these parameters, which have no _meta.
func (r *relay) pass(ctx context.Context, c conversation.Call, server string, params json.RawMessage) (json.RawMessage, error) {
	params = once(params, "name", "uri", "ref", "taskId", "_meta")
	return r.router.Relay(ctx, server, session.Request{Method: c.Method, Params: params, Meta: c.ServerMeta(), From: c.From})
}

// once returns an object in which each of the names has one value, also if it stands there twice, and without the members with a key
// that differs from one of the names only in case: many servers ignore that difference, and would take another value than the one
// that the router has judged.
func once(object json.RawMessage, names ...string) json.RawMessage {
	out, values := []byte("{"), make([][]byte, len(names))
	if wire.Pick(object, values, names...) != nil {
		return object
	}
	for key, value := range wire.All(object) {
		at := slices.IndexFunc(names, func(name string) bool { return strings.EqualFold(name, key) })
		switch {
		case at >= 0 && names[at] != key:
			continue
		case at >= 0:
			value = values[at]
		}
		out = wire.AppendMember(out, key, value)
	}
	return append(out, '}')
}

// prompt answers prompts/get.
func (r *relay) prompt(ctx context.Context, c conversation.Call) (json.RawMessage, error) {
	name, err := c.Text("name")
	if err != nil {
		return nil, err
	}
	prompt, err := r.catalog.Prompt(ctx, name)
	if err != nil {
		return nil, session.InvalidParams(err.Error())
	}
	params := c.BareParams()
	if !wire.IsObject(wire.Member(params, "arguments")) { // servers of the TypeScript SDK refuse a prompt without
		params = wire.SetMember(params, "arguments", json.RawMessage("{}"))
	}
	result, err := r.pass(ctx, c, prompt.Server, wire.SetMember(params, "name", wire.AppendString(nil, prompt.Name)))
	return r.tools.Linked(c.Owner(), prompt.Server, result), err
}

// complete completes an argument of a prompt or of a resource template.
func (r *relay) complete(ctx context.Context, c conversation.Call) (json.RawMessage, error) {
	params := c.BareParams()
	ref := once(wire.Member(params, "ref"), "type", "name", "uri")
	switch wire.Text(ref, "type") {
	case "ref/prompt":
		prompt, err := r.catalog.Prompt(ctx, wire.Text(ref, "name"))
		if err != nil {
			return nil, session.InvalidParams(err.Error())
		}
		ref = wire.SetMember(ref, "name", wire.AppendString(nil, prompt.Name))
		return r.pass(ctx, c, prompt.Server, wire.SetMember(params, "ref", ref))
	case "ref/resource":
		found, err := r.locate(ctx, wire.Text(ref, "uri"))
		if err != nil {
			return nil, err
		}
		ref = wire.SetMember(ref, "uri", wire.AppendString(nil, found[0].URI))
		return r.pass(ctx, c, found[0].Server, wire.SetMember(params, "ref", ref))
	}
	return nil, session.InvalidParams("completion/complete needs a ref of the type ref/prompt or ref/resource")
}

// task answers the requests for a task, which the server that runs it knows.
func (r *relay) task(ctx context.Context, c conversation.Call) (json.RawMessage, error) {
	exposed, err := c.Text("taskId")
	if err != nil {
		return nil, err
	}
	began, id, ok := r.tasks.Resolve(c.Principal, exposed)
	tool, exists := r.router.Snapshot().Tool(began)
	if !ok || !exists {
		return nil, session.InvalidParams("there is no such task")
	}
	result, err := r.pass(ctx, c, tool.Server, wire.SetMember(c.BareParams(), "taskId", wire.AppendString(nil, id)))
	return r.tasks.Expose(c.Principal, began, r.tools.Linked(c.Owner(), tool.Server, result)), err
}

// read answers resources/read, also of a kept result.
func (r *relay) read(ctx context.Context, c conversation.Call) (json.RawMessage, error) {
	uri, err := c.Text("uri")
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(uri, tools.ResultScheme) {
		text, ok := r.tools.ReadKept(c.Owner(), uri)
		if !ok {
			return nil, session.NoResource(uri)
		}
		return wire.Marshal(map[string]any{"contents": []any{map[string]string{"uri": uri, "mimeType": "text/plain", "text": text}}}), nil
	}
	found, err := r.locate(ctx, uri)
	if err != nil {
		return nil, err
	}
	giver := r.tools.Giver(c.Owner(), uri)
	if giver != "" && slices.ContainsFunc(r.router.Servers(), func(s status.Server) bool { return s.Name == giver }) {
		at := catalog.Address{Server: giver, URI: uri}
		found = append([]catalog.Address{at}, slices.DeleteFunc(found, func(other catalog.Address) bool { return other == at })...)
	}
	result, at, err := r.first(ctx, c, found)
	if err == nil {
		return renamed(result, at.URI, uri), nil
	}
	if e, ok := errors.AsType[*session.Error](err); ok && e.Code == session.CodeNoResource && c.Modern() {
		err = &session.Error{Code: session.CodeInvalidParams, Message: e.Message, Data: session.NoResource(uri).Data}
	}
	return nil, err
}

// first asks one server after the other, until one knows its URI.
func (r *relay) first(ctx context.Context, c conversation.Call, found []catalog.Address) (result json.RawMessage, at catalog.Address, err error) {
	for _, at = range found {
		result, err = r.pass(ctx, c, at.Server, wire.SetMember(c.BareParams(), "uri", wire.AppendString(nil, at.URI)))
		if e, ok := errors.AsType[*session.Error](err); !ok || e.Code != session.CodeInvalidParams && e.Code != session.CodeNoResource {
			break
		}
	}
	return result, at, err
}

// skill answers skills/get. The server is asked each time: it may have changed the skill, and need not list it.
func (r *relay) skill(ctx context.Context, c conversation.Call) (json.RawMessage, error) {
	uri, err := c.Text("uri")
	if err != nil {
		return nil, err
	}
	found := slices.DeleteFunc(r.catalog.Locate(ctx, uri), func(at catalog.Address) bool {
		return wire.Member(r.router.Snapshot().Offer(at.Server).Extensions, session.SkillsExtension) == nil
	})
	result, at, err := r.first(ctx, c, found)
	if len(found) == 0 {
		return nil, session.NoResource(uri)
	}
	if err != nil {
		return nil, err
	}
	s := registry.Skill{Server: at.Server, URI: at.URI, Definition: wire.Member(result, "skill")}
	_, s.Definition = r.catalog.View().Skill(&s, uri == at.Qualified())
	return wire.SetMember(result, "skill", s.Definition), nil
}

// renamed returns the result of a read with the URI by which the client knows the
// resource.
func renamed(result json.RawMessage, theirs, ours string) json.RawMessage {
	if theirs == ours {
		return result
	}
	var changes content.Repairs
	return changes.Each(result, "contents", wire.Member(result, "contents"), func(at string, content []byte) []byte {
		if !wire.IsString(wire.Member(content, "uri"), theirs) {
			return content
		}
		changes.Note("%s", at)
		return wire.SetMember(content, "uri", wire.AppendString(nil, ours))
	})
}

// locate returns where to ask for a resource, to be tried one after the other.
func (r *relay) locate(ctx context.Context, uri string) ([]catalog.Address, error) {
	if uri == "" {
		return nil, session.InvalidParams("the uri is missing")
	}
	found := r.catalog.Locate(ctx, uri)
	if len(found) == 0 {
		return nil, session.NoResource(uri)
	}
	return found, nil
}
