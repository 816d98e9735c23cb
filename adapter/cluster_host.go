package adapter

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/mcp-metarouter/metarouter/adapter/internal/scope"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/internal/profile"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

// A clusterHost is the router as other nodes use it: with the router's own shared servers only, so
// that a request never goes on to a third node.
//
// A request must be allowed twice: by this router's own profile of the same name, or else by its
// "default", and by the rules that the client's own node has signed. A request that is not allowed
// has the answer of one about something that does not exist.
type clusterHost struct {
	router *Router

	mu     sync.Mutex // guards the fields below
	views  map[string]*View
	rules  map[string]*profile.Rules // by their text
	offers map[string]*hostOffer     // of servers, as they were last asked for
}

// maxViews is how many scopes and rules of other nodes' clients are kept.
const maxViews = 256

func newClusterHost(r *Router) *clusterHost {
	return &clusterHost{router: r, views: make(map[string]*View), rules: make(map[string]*profile.Rules), offers: make(map[string]*hostOffer)}
}

// State implements [cluster.Host].
func (h *clusterHost) State(server string) (state status.State, calls, waiting int) {
	calls, waiting = h.router.executor.Load(server)
	return h.router.supervisor.State(server), calls, waiting
}

// Execute implements [cluster.Host].
func (h *clusterHost) Execute(ctx context.Context, in clusternode.Incoming) (json.RawMessage, bool, error) {
	v, err := h.admit(in)
	if err != nil {
		return nil, false, err
	}
	if in.Request.Method == "tools/call" {
		return v.call(ctx, in)
	}
	if err := v.relayable(in); err != nil {
		return nil, false, err
	}
	in.Request.Here = true
	result, err := v.view.Relay(ctx, in.Server, in.Request)
	return result, false, err
}

// Subscribe implements [cluster.Host].
func (h *clusterHost) Subscribe(ctx context.Context, in clusternode.Incoming) (done <-chan struct{}, cancel func(), err error) {
	v, err := h.admit(in)
	if err != nil {
		return nil, nil, err
	}
	if !v.uri(in.Server, in.URI) {
		return nil, nil, scope.NoResource(in.URI)
	}
	return v.view.Subscribe(ctx, in.Server, in.URI, in.Request.From)
}

// Listen implements [cluster.Host].
func (h *clusterHost) Listen(hear func(server string, owner session.Client, m session.Message)) (stop func()) {
	return h.router.listeners.add(func(server string, owner Client, m Message) {
		if h.router.current.load().has(server) {
			hear(server, owner, m)
		}
	})
}

// Keeps implements [cluster.Host].
func (h *clusterHost) Keeps(server string, home session.Client) bool {
	return h.router.supervisor.Keeps(server, home)
}

// Release implements [cluster.Host].
func (h *clusterHost) Release(home session.Client) { h.router.supervisor.Release(home) }

// Tell implements [cluster.Host].
func (h *clusterHost) Tell(home session.Client, method string, params json.RawMessage) {
	h.router.supervisor.Notify(home, method, params)
}

// SetLevel implements [cluster.Host].
func (h *clusterHost) SetLevel(ctx context.Context, level string) {
	h.router.supervisor.SetLevel(ctx, h.router.levels.least(h, level))
}

// A visitor is the rules for a client of another node.
type visitor struct {
	setup  *setup
	origin *session.Origin
	view   *View          // by the rules of this router
	rules  *profile.Rules // of its own node; nil allows everything
	node   string         // the name of this node, which is in the names to which the rules apply

	server, as string // a server that has the name as in the rules; "" if all have their own
}

// admit returns the client of a request.
func (h *clusterHost) admit(in clusternode.Incoming) (*visitor, error) {
	v := &visitor{setup: h.router.current.load(), origin: in.Request.Origin}
	if v.origin == nil {
		v.origin = new(session.Origin)
	}
	if !v.setup.shared[in.Server] {
		return nil, &session.Error{Code: session.CodeInvalidParams, Message: scope.NoServer(in.Server).Error()}
	}
	if v.origin.Rules != nil {
		var err error
		if v.rules, err = h.decoded(v.origin.Rules); err != nil {
			return nil, &session.Error{Code: session.CodeInvalidParams, Message: "the node that has " + in.Server + " refuses the request: " + err.Error() + "; its version of metarouter may be older"}
		}
		v.node = h.router.members.name()
		v.server, v.as = in.Server, v.service(in.Server, v.origin.As)
	}
	if v.rules != nil && !v.rules.Server(v.alias(in.Server)) {
		return nil, &session.Error{Code: session.CodeInvalidParams, Message: scope.NoServer(in.Server).Error()}
	}
	v.view = h.view(v.origin.Profile)
	return v, nil
}

// decoded returns the rules that another node has encoded.
func (h *clusterHost) decoded(text json.RawMessage) (*profile.Rules, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if rules, ok := h.rules[string(text)]; ok {
		return rules, nil
	}
	rules, err := profile.Decode(text)
	if err == nil {
		keep(h.rules, string(text), rules)
	}
	return rules, err
}

// keep adds to a map, which it empties if the map is full.
func keep[V any](m map[string]V, key string, value V) {
	if len(m) >= maxViews {
		clear(m)
	}
	m[key] = value
}

// view returns the router under its own profiles of the same names, joined by "+", or else under
// "default".
func (h *clusterHost) view(profiles string) *View {
	all := h.router.current.load().config.Router.Profiles
	var chosen []string
	for name := range strings.SplitSeq(profiles, "+") {
		if name != "" && profile.Exists(all, name) {
			chosen = append(chosen, name)
		}
	}
	key := strings.Join(chosen, "+")
	h.mu.Lock()
	defer h.mu.Unlock()
	s, ok := h.views[key]
	if !ok {
		s = h.router.parts.Scope(chosen...)
		keep(h.views, key, s)
	}
	return s
}

// allows reports whether the client may use a tool of this router.
func (v *visitor) allows(t *registry.NormalizedTool) bool {
	if !v.setup.shared[t.Server] {
		return false
	}
	if v.rules == nil {
		return true
	}
	theirs := *t
	theirs.Server = v.alias(t.Server)
	theirs.ID = registry.ID(theirs.Server, t.Name)
	return v.rules.Tool(&theirs)
}

// service returns as, the name that the client's node gives the server as a service, if the server
// is one, else "".
func (v *visitor) service(server, as string) string {
	if len(as) > maxMatched {
		return ""
	}
	for _, entry := range v.setup.config.Servers {
		if entry.Name == server && entry.Service != "" {
			return as
		}
	}
	return ""
}

// alias returns the name that a server of this router has for the client.
func (v *visitor) alias(server string) string {
	if v.as != "" && server == v.server {
		return v.as
	}
	return server + "@" + v.node
}

// maxMatched bounds the names and URIs that are compared with patterns of another node's rules, in
// bytes: that may take as many steps as the product of both lengths.
const maxMatched = 16 << 10

// uri reports whether the client's node lets it read a URI of a server.
func (v *visitor) uri(server, uri string) bool {
	return v.rules == nil || len(uri) <= maxMatched && v.rules.URI(v.alias(server), uri)
}

// name reports whether the client's node lets it use a prompt or a template of a server.
func (v *visitor) name(server, name string) bool {
	return v.rules == nil || len(name) <= maxMatched && v.rules.Name(v.alias(server), name)
}

// call carries out tools/call.
func (v *visitor) call(ctx context.Context, in clusternode.Incoming) (json.RawMessage, bool, error) {
	tools := v.view.Snapshot().Server(in.Server)
	i := slices.IndexFunc(tools, func(t *registry.NormalizedTool) bool { return t.Name == in.Tool })
	if i < 0 || !v.allows(tools[i]) {
		return nil, false, &session.Error{Code: session.CodeInvalidParams, Message: "unknown tool " + registry.ID(in.Server, in.Tool)}
	}
	c := selector.Call{
		Tool: tools[i], Arguments: wire.Member(in.Request.Params, "arguments"), Params: in.Request.Params, Meta: in.Request.Meta, Here: true,
		From: in.Request.From, Client: in.Gateway, Principal: in.Key + "/" + v.origin.Principal, PrincipalName: clusternode.NameAt(v.origin.Name, in.Gateway),
		Unfit: func(t *registry.NormalizedTool) bool { return !v.allows(t) },
	}
	r, err := v.view.Execute(ctx, c)
	if err == nil && isRetriable(r) {
		err = r.Err
	}
	if err != nil {
		return nil, false, err
	}
	return r.JSON, r.Tool != nil && r.Tool.ID != c.Tool.ID, nil
}

// isRetriable reports whether the client's node decides whether to send the call again, since the
// server was not there. Otherwise the result is final, even if it says that the call was not made.
func isRetriable(r selector.Result) bool {
	outcome, _ := execute.OutcomeOf(r, nil)
	if outcome != execute.NoAnswer || execute.IsTooSoon(r.Err) || errors.Is(r.Err, session.ErrForbidden) {
		return false
	}
	return errors.Is(r.Err, session.ErrNotSent) || errors.Is(r.Err, session.ErrClosed)
}

// relayable returns the error of a request that the client's node does not allow, or that this one
// does not carry out for others, or nil.
func (v *visitor) relayable(in clusternode.Incoming) error {
	refused := func(allowed bool, err error) error {
		if allowed {
			return nil
		}
		return err
	}
	unknown := &session.Error{Code: session.CodeInvalidParams, Message: "unknown prompt or template"}
	return scope.CheckSubject(in.Request, func(uri string) error {
		return refused(v.uri(in.Server, uri), scope.NoResource(uri))
	}, func(prompt string) error {
		return refused(v.name(in.Server, prompt), unknown)
	}, func(uri string) error {
		return refused(v.name(in.Server, uri) || v.uri(in.Server, uri), unknown)
	})
}
