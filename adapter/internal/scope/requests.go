package scope

import (
	"errors"
	"fmt"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

// Query returns the query for the visible part of the catalog.
func (v *Visible) Query(q selector.Query) selector.Query {
	if v.Rules != nil {
		q.Catalog = v.Snapshot // a server that it does not have is one that does not exist, also in q.Servers
	}
	return q
}

// Callable returns the error of a call of the tool, or nil if it can be called. A caller may have
// found the tool before an edit of the configuration, or before its server listed another one of
// the same ID, which may do something else.
func (v *Visible) Callable(t *registry.NormalizedTool) error {
	if v.Rules == nil {
		return nil
	}
	now, ok := v.Snapshot.Tool(t.ID)
	switch {
	case !ok || now.Server != t.Server:
		return session.InvalidParams(fmt.Sprintf("unknown tool %q", t.ID))
	case now != t:
		return session.InvalidParams(fmt.Sprintf("%s was not run: the tool has changed since it was looked up; call it again", t.ID))
	}
	return nil
}

// Hears reports whether the clients may know of a server's message.
func (l *Limits) Hears(server string, m session.Message) bool {
	return l.Server(server) && (m.Method != "notifications/resources/updated" || l.URI(server, wire.Text(m.Params, "uri")))
}

// Subscribable returns the error of a subscription to a resource, or nil.
func (l *Limits) Subscribable(server, uri string) error {
	switch {
	case !l.Server(server):
		return session.Internal(NoServer(server).Error())
	case !l.URI(server, uri):
		return session.NoResource(uri)
	}
	return nil
}

// Relayable returns the error of a request about something that does not exist for the clients, or
// nil.
func (v *Visible) Relayable(server string, r session.Request) error {
	if v.Rules == nil {
		return nil
	}
	if !v.Server(server) {
		return session.Internal(NoServer(server).Error())
	}
	kind, name, err := Subject(r)
	switch kind {
	case registry.KindPrompt:
		return v.prompt(server, name)
	case registry.KindTemplate:
		if len(v.Snapshot.Items(registry.ID(server, name))) > 0 {
			return nil
		}
		return v.Subscribable(server, name)
	case registry.KindResource:
		return v.Subscribable(server, name)
	}
	return err
}

// Subject returns what a request is about: a prompt with its name, a resource or a template with its URI, or nothing. A
// skill is a resource, and a template may be a resource, too. A method that it does not know is an error.
func Subject(r session.Request) (kind, name string, err error) {
	switch r.Method {
	case "tasks/get", "tasks/update", "tasks/cancel":
		return "", "", nil
	case "resources/read", "skills/get":
		return registry.KindResource, wire.Text(r.Params, "uri"), nil
	case "prompts/get":
		return registry.KindPrompt, wire.Text(r.Params, "name"), nil
	case "completion/complete":
		ref := wire.Member(r.Params, "ref")
		if wire.Text(ref, "type") == "ref/prompt" {
			return registry.KindPrompt, wire.Text(ref, "name"), nil
		}
		return registry.KindTemplate, wire.Text(ref, "uri"), nil
	}
	return "", "", &session.Error{Code: session.CodeMethodNotFound, Message: "unknown method " + r.Method}
}

// prompt returns the error of a request for a prompt that does not exist for the clients, or nil.
func (v *Visible) prompt(server, name string) error {
	id := registry.ID(server, name)
	for _, i := range v.Snapshot.Items(id) {
		if i.Prompt != nil {
			return nil
		}
	}
	return session.InvalidParams(fmt.Sprintf("unknown prompt %q", id))
}

// Hide returns err, or the error of a resource that is not allowed instead of the server's own words
// for one that does not exist, so that the two can't be told apart.
func (v *Visible) Hide(server, uri string, err error) error {
	e, ok := errors.AsType[*session.Error](err)
	if v.Rules == nil || !ok || e.Code != session.CodeInvalidParams && e.Code != session.CodeNoResource {
		return err
	}
	for _, i := range v.Snapshot.Items(registry.ID(server, uri)) {
		if i.Resource != nil || i.Skill != nil {
			return err // the clients know that it exists
		}
	}
	return session.NoResource(uri)
}

// NoServer returns the error of the supervisor for a server that does not exist.
func NoServer(name string) error { return &status.UnavailableError{Server: name} }
