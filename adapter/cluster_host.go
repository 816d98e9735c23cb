package adapter

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/mcp-metarouter/metarouter/cluster"
	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/internal/profile"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
)

// A clusterHost is the router as other nodes use it. It has the router's own servers only, so that a
// request never goes on to a third node, and of these the shared ones.
//
// A request must be allowed twice: by this router's own profile of the same name, or else by its
// "default", and by the rules of the client's own node, which that has signed. What is not
// allowed has the answer of something that does not exist.
type clusterHost struct {
	router *Router

	mu     sync.Mutex // guards what follows
	scopes map[string]*Scope
	rules  map[string]*profile.Rules // by their text
	offers map[string]*hostOffer     // of servers, as they were last asked for

	levels Scope // stands for the other nodes among those that set levels
}

// maxScopes is how many scopes and rules of other nodes' clients are kept.
const maxScopes = 256

func newClusterHost(r *Router) *clusterHost {
	return &clusterHost{router: r, scopes: make(map[string]*Scope), rules: make(map[string]*profile.Rules), offers: make(map[string]*hostOffer)}
}

// State implements [cluster.Host].
func (h *clusterHost) State(server string) (state status.State, calls, waiting int) {
	calls, waiting = h.router.executor.Load(server)
	return h.router.supervisor.State(server), calls, waiting
}

// Execute implements [cluster.Host].
func (h *clusterHost) Execute(ctx context.Context, in cluster.Incoming) (json.RawMessage, bool, error) {
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
	result, err := v.scope.Relay(ctx, in.Server, in.Request)
	return result, false, err
}

// Subscribe implements [cluster.Host].
func (h *clusterHost) Subscribe(ctx context.Context, in cluster.Incoming) (done <-chan struct{}, cancel func(), err error) {
	v, err := h.admit(in)
	if err != nil {
		return nil, nil, err
	}
	if !v.uri(in.Server, in.URI) {
		return nil, nil, noResource(in.URI)
	}
	return v.scope.Subscribe(ctx, in.Server, in.URI, in.Request.From)
}

// Listen implements [cluster.Host].
func (h *clusterHost) Listen(hear func(server string, owner session.Client, m session.Message)) (stop func()) {
	return h.router.fleet.Listen(func(server string, owner Client, m Message) {
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
	h.router.supervisor.SetLevel(ctx, h.router.levels.least(&h.levels, level))
}

// A visitor is a client of another node: what it may see here.
type visitor struct {
	host  *clusterHost
	setup *setup
	scope *Scope         // what this router allows
	rules *profile.Rules // what its own node allows; nil is everything
	node  string         // the name of this node, which is in the names to which the rules apply

	server, as string // a server whose name in the rules is another one; as is "" if there is none
}

// admit returns who makes a request.
func (h *clusterHost) admit(in cluster.Incoming) (*visitor, error) {
	v := &visitor{host: h, setup: h.router.current.load()}
	if !v.setup.shared[in.Server] {
		return nil, &session.Error{Code: session.CodeInvalidParams, Message: noServer(in.Server).Error()}
	}
	origin := in.Request.Origin
	if origin == nil {
		origin = new(session.Origin)
	}
	if origin.Rules != nil {
		var err error
		if v.rules, err = h.decoded(origin.Rules); err != nil {
			return nil, &session.Error{Code: session.CodeInvalidParams, Message: "the node that has " + in.Server + " refuses the request: " + err.Error() + "; its version of metarouter may be older"}
		}
		v.node = h.router.members.name()
		v.server, v.as = in.Server, v.service(in.Server, origin.As)
	}
	if v.rules != nil && !v.rules.Server(v.alias(in.Server)) {
		return nil, &session.Error{Code: session.CodeInvalidParams, Message: noServer(in.Server).Error()}
	}
	v.scope = h.scope(origin.Profile)
	return v, nil
}

// decoded returns the rules that another node has encoded.
func (h *clusterHost) decoded(text json.RawMessage) (*profile.Rules, error) {
	h.mu.Lock()
	rules, ok := h.rules[string(text)]
	h.mu.Unlock()
	if ok {
		return rules, nil
	}
	rules, err := profile.Decode(text)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.rules) >= maxScopes {
		clear(h.rules)
	}
	h.rules[string(text)] = rules
	return rules, nil
}

// scope returns the router under its own profiles of the same names, joined by "+", or else under
// "default".
func (h *clusterHost) scope(profiles string) *Scope {
	all := h.router.current.load().config.Router.Profiles
	var chosen []string
	for name := range strings.SplitSeq(profiles, "+") {
		if name != "" && profile.Exists(all, name) {
			chosen = append(chosen, name)
		}
	}
	key := joined(chosen)
	h.mu.Lock()
	defer h.mu.Unlock()
	s, ok := h.scopes[key]
	if !ok {
		if len(h.scopes) >= maxScopes {
			clear(h.scopes)
		}
		s = h.router.Parts().Scope(chosen...)
		h.scopes[key] = s
	}
	return s
}

// allows reports whether the client's node and this one let the client use a tool of this router.
func (v *visitor) allows(t *NormalizedTool) bool {
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

// service returns the name under which the client knows a server as a service; "" if the server is
// none. as is that name, as the client's node says.
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

// maxMatched bounds the names and URIs that are compared with the patterns of another node's rules,
// in bytes: these may take as many steps as both have characters, multiplied.
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
func (v *visitor) call(ctx context.Context, in cluster.Incoming) (json.RawMessage, bool, error) {
	tools := v.scope.Snapshot().Server(in.Server)
	i := slices.IndexFunc(tools, func(t *NormalizedTool) bool { return t.Name == in.Tool })
	if i < 0 || !v.allows(tools[i]) {
		return nil, false, &session.Error{Code: session.CodeInvalidParams, Message: "unknown tool " + registry.ID(in.Server, in.Tool)}
	}
	origin := in.Request.Origin
	if origin == nil {
		origin = new(session.Origin)
	}
	c := Call{
		Tool: tools[i], Arguments: wire.Member(in.Request.Params, "arguments"), Params: in.Request.Params, Meta: in.Request.Meta, Here: true,
		From: in.Request.From, Client: in.Gateway, Principal: in.Key + "/" + origin.Principal, PrincipalName: cluster.NameAt(origin.Name, in.Gateway),
		Unfit: func(t *NormalizedTool) bool { return !v.allows(t) },
	}
	r, err := v.scope.Execute(ctx, c)
	if err == nil && isRetriable(r) {
		err = r.Err
	}
	if err != nil {
		return nil, false, err
	}
	return r.JSON, r.Tool != nil && r.Tool.ID != c.Tool.ID, nil
}

// isRetriable reports whether the client's node decides what becomes of a call: its server was not
// there. Otherwise the result is final, also where it says that the call was not made.
func isRetriable(r Result) bool {
	outcome, _ := execute.OutcomeOf(r, nil)
	if outcome != execute.NoAnswer || execute.IsTooSoon(r.Err) || errors.Is(r.Err, session.ErrForbidden) {
		return false
	}
	return errors.Is(r.Err, session.ErrNotSent) || errors.Is(r.Err, session.ErrClosed)
}

// relayable returns the error of a request that the client's node does not allow, or that this one
// does not carry out for others, or nil.
func (v *visitor) relayable(in cluster.Incoming) error {
	params, allowed := in.Request.Params, false
	switch in.Request.Method {
	case "tasks/get", "tasks/update", "tasks/cancel":
		allowed = true
	case "resources/read":
		uri := text(params, "uri")
		if !v.uri(in.Server, uri) {
			return noResource(uri)
		}
		allowed = true
	case "prompts/get":
		allowed = v.name(in.Server, text(params, "name"))
	case "completion/complete":
		ref := wire.Member(params, "ref")
		name, uri := text(ref, "name"), text(ref, "uri")
		if text(ref, "type") == "ref/prompt" {
			allowed = v.name(in.Server, name)
		} else {
			allowed = v.name(in.Server, uri) || v.uri(in.Server, uri)
		}
	default:
		return &session.Error{Code: session.CodeMethodNotFound, Message: "unknown method " + in.Request.Method}
	}
	if !allowed {
		return &session.Error{Code: session.CodeInvalidParams, Message: "unknown prompt or template"}
	}
	return nil
}
