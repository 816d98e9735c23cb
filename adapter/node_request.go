package adapter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/adapter/internal/scope"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/internal/profile"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

// A NodeRequest is a request of a client of another node that may be carried out.
//
// It is allowed twice: by this router's own profile of the same name, or else by its "default", and by
// the rules of the client's own node. A request that is not allowed has the answer of a request about
// something that does not exist.
type NodeRequest struct {
	Principal     string          // of the client, different at each node
	PrincipalName string          // for logs
	Profile       string          // the profiles that the client has chosen at its node, joined by "+"
	Meta          json.RawMessage // without the member that nodes add

	node   *NodeView
	sent   clusternode.Request
	method string
	params json.RawMessage
	tool   *registry.NormalizedTool // of tools/call

	setup *setup
	view  *View          // by the rules of this router
	rules *profile.Rules // of the client's node; nil allows everything
	self  string         // the name of this node, which is in the names to which rules apply
	as    string         // the name of the server in rules if that is another; "" otherwise
}

const (
	// maxNodeMeta bounds the member that nodes add to a request, and maxNodeText each of its texts that
	// logs have, in bytes.
	maxNodeMeta = 128 << 10
	maxNodeText = 1 << 10

	// maxMatched bounds the names and URIs that are compared with patterns of another node's rules, in
	// bytes: that may take as many steps as the product of both lengths.
	maxMatched = 16 << 10
)

// Why a request is not sent to its server.
var (
	errLapsed  = fmt.Errorf("%w: this node or the node of the client was frozen or cut off", session.ErrNotSent)
	errRevoked = fmt.Errorf("%w: the server is not shared with the node of the client any more", session.ErrNotSent)
)

// Admit returns a request with these params and this _meta, if it is allowed now. Each request must be
// admitted, also a request that resumes a suspended one. Errors are for the other node.
func (v *NodeView) Admit(method string, params, meta json.RawMessage) (*NodeRequest, error) {
	r := &NodeRequest{node: v, method: method, params: params, Meta: meta, setup: v.host.router.current.load()}
	if !v.Allowed() {
		return nil, v.NotSent(scope.NoServer(v.stream.Server))
	}
	raw := wire.Member(meta, clusternode.MetaKey)
	switch {
	case raw == nil && hasSubject(method):
		return nil, &session.Error{Code: session.CodeInvalidRequest, Message: "the request has no " + clusternode.MetaKey + " in _meta, which a node adds"}
	case len(raw) > maxNodeMeta, raw != nil && (json.Unmarshal(raw, &r.sent) != nil || !isPrintable(r.sent)):
		return nil, &session.Error{Code: session.CodeInvalidRequest, Message: "invalid " + clusternode.MetaKey + " in _meta; the versions of metarouter may differ"}
	case raw != nil:
		r.Meta = wire.DeleteMember(meta, clusternode.MetaKey)
	}
	if r.sent.Origin == nil {
		r.sent.Origin = new(session.Origin)
	}
	r.Principal = v.stream.Key + "/" + r.sent.Origin.Principal
	r.Profile = r.sent.Origin.Profile
	r.PrincipalName = clusternode.NameAt(r.sent.Origin.Name, v.stream.Node)
	r.view = v.host.view(r.sent.Origin.Profile)
	if err := r.limit(r.sent.Origin); err != nil {
		return nil, err
	}
	switch {
	case !hasSubject(method):
		return r, nil
	case v.stream.Lapsed():
		return nil, v.NotSent(errLapsed)
	case v.stream.Server == "": // only the router that has suspended it can judge it
		return r, nil
	case method == "tools/call":
		return r, r.find()
	}
	return r, r.relayable()
}

// IsOf reports whether the client has this principal of a router with the same rules.
func (r *NodeRequest) IsOf(principal string) bool {
	return r.sent.Origin.Principal == session.NewOrigin("", nil, principal, "").Principal
}

// isPrintable reports whether the texts of a request that logs have are short, without control characters.
func isPrintable(r clusternode.Request) bool {
	texts := []string{r.ID}
	if o := r.Origin; o != nil {
		texts = append(texts, o.Profile, o.Principal, o.Name)
	}
	return !slices.ContainsFunc(texts, func(text string) bool {
		return len(text) > maxNodeText || strings.ContainsFunc(text, unicode.IsControl)
	})
}

// hasSubject reports whether a request of the method is about a tool, prompt, resource or task, so that
// rules apply to it.
func hasSubject(method string) bool {
	switch method {
	case "tools/call", "prompts/get", "resources/read", "skills/get", "completion/complete", "tasks/get", "tasks/update", "tasks/cancel":
		return true
	}
	return false
}

// limit sets the rules of the client's node.
func (r *NodeRequest) limit(origin *session.Origin) (err error) {
	server := r.node.stream.Server
	if origin.Rules == nil {
		return nil
	}
	if r.rules, err = r.node.host.decoded(origin.Rules); err != nil {
		return session.InvalidParams("the node that has " + server + " refuses the request: " + err.Error() + "; its version of metarouter may be older")
	}
	r.self = r.node.host.router.members.name()
	isService := slices.ContainsFunc(r.setup.config.Servers, func(entry config.Server) bool { return entry.Name == server && entry.Service != "" })
	if isService && len(origin.As) <= maxMatched {
		r.as = origin.As
	}
	if !r.rules.Server(r.alias(server)) {
		return session.InvalidParams(scope.NoServer(server).Error())
	}
	return nil
}

// alias returns the name that a server of this router has for the client.
func (r *NodeRequest) alias(server string) string {
	if r.as != "" && server == r.node.stream.Server {
		return r.as
	}
	return server + "@" + r.self
}

// find finds the tool of a call.
func (r *NodeRequest) find() error {
	name := wire.Text(r.params, "name")
	tools := r.view.Snapshot().Offer(r.node.stream.Server).Tools
	i := slices.IndexFunc(tools, func(t *registry.NormalizedTool) bool { return t.Name == name })
	if i < 0 || !r.allows(tools[i]) {
		return session.InvalidParams("unknown tool " + registry.ID(r.node.stream.Server, name))
	}
	r.tool = tools[i]
	return nil
}

// allows reports whether the client may use a tool of this router.
func (r *NodeRequest) allows(t *registry.NormalizedTool) bool {
	if !r.setup.shared[t.Server] {
		return false
	}
	if r.rules == nil {
		return true
	}
	theirs := *t
	theirs.Server = r.alias(t.Server)
	theirs.ID = registry.ID(theirs.Server, t.Name)
	return r.rules.Tool(&theirs)
}

// uri reports whether the client's node lets it read a URI of the server.
func (r *NodeRequest) uri(uri string) bool {
	return r.rules == nil || len(uri) <= maxMatched && r.rules.URI(r.alias(r.node.stream.Server), uri, r.view.Snapshot().Offer(r.node.stream.Server).Skills...)
}

// name reports whether the client's node lets it use a prompt or a template of the server.
func (r *NodeRequest) name(name string) bool {
	return r.rules == nil || len(name) <= maxMatched && r.rules.Name(r.alias(r.node.stream.Server), name)
}

// relayable returns the error of a request that the client's node does not allow, or nil.
func (r *NodeRequest) relayable() error {
	switch kind, name, err := scope.Subject(Request{Method: r.method, Params: r.params}); {
	case err != nil:
		return err
	case kind == registry.KindResource && !r.uri(name):
		return session.NoResource(name)
	case kind == registry.KindPrompt && !r.name(name), kind == registry.KindTemplate && !r.name(name) && !r.uri(name):
		return session.InvalidParams("unknown prompt or template")
	}
	return nil
}

// Do carries out the request. Of the argument, it takes From. Errors are for the other node.
func (r *NodeRequest) Do(ctx context.Context, as Request) (result json.RawMessage, err error) {
	if r.sent.Deadline != 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadline(ctx, r.node.stream.Local(time.UnixMilli(r.sent.Deadline)))
		defer cancel()
	}
	as.Method, as.Params, as.Meta, as.Here, as.From = r.method, r.params, r.Meta, true, nodeClient{as.From, r}
	if r.tool != nil {
		result, err = r.call(ctx, as)
	} else {
		result, err = r.view.Relay(ctx, r.node.stream.Server, as)
	}
	switch {
	case err == nil:
		return result, nil
	case ctx.Err() == nil && errors.Is(err, session.ErrClosed) && !errors.Is(err, session.ErrNotSent):
		return nil, outcomeError(err, "closed")
	}
	return nil, r.node.NotSent(err)
}

// call carries out tools/call.
func (r *NodeRequest) call(ctx context.Context, as Request) (json.RawMessage, error) {
	result, err := r.view.Execute(ctx, selector.Call{
		Tool: r.tool, Arguments: wire.Member(r.params, "arguments"), Params: r.params, Meta: r.Meta, Here: true, From: as.From,
		Client: r.node.stream.Node, Principal: r.Principal, PrincipalName: r.PrincipalName,
		Unfit: func(t *registry.NormalizedTool) bool { return !r.allows(t) },
	})
	if err == nil && isRetriable(result) {
		err = result.Err
	}
	return result.JSON, err
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

// NotSent returns an error as the other node gets it: if the error says that the request was not sent,
// the other node may send it to another replica of the server.
func (v *NodeView) NotSent(err error) error {
	if errors.Is(err, session.ErrNotSent) && !errors.Is(err, session.ErrForbidden) {
		return outcomeError(err, "not_sent")
	}
	if e, ok := errors.AsType[*session.Error](err); ok && wire.Member(wire.Member(e.Data, "metarouter"), "outcome") != nil { // only a node may say so
		return &session.Error{Code: e.Code, Message: e.Message, Data: wire.DeleteMember(e.Data, "metarouter")}
	}
	return err
}

func outcomeError(err error, outcome string) error {
	return &session.Error{Code: session.CodeInternal, Message: err.Error(), Data: json.RawMessage(`{"metarouter":{"outcome":"` + outcome + `"}}`)}
}

// Subscribe is [View.Subscribe] for a client.
func (r *NodeRequest) Subscribe(ctx context.Context, uri string, from Client) (done <-chan struct{}, cancel func(), err error) {
	if !r.uri(uri) {
		return nil, nil, session.NoResource(uri)
	}
	return r.view.Subscribe(ctx, r.node.stream.Server, uri, nodeClient{from, r})
}

// SetLevel has servers send log messages from the level on while the stream is open.
func (r *NodeRequest) SetLevel(ctx context.Context, level string) {
	router := r.node.host.router
	router.supervisor.SetLevel(ctx, router.levels.least(r.node, level))
}

// Answer returns the result of the request as the other node gets it: of tools/call with a signature.
// If the request was suspended, it answers the request that came last.
func (r *NodeRequest) Answer(result json.RawMessage) json.RawMessage {
	if r.method != "tools/call" {
		return result
	}
	meta := wire.Member(result, "_meta")
	answer := clusternode.Answer{Degraded: string(wire.Member(meta, "degraded")) == "true"}
	if signer := r.node.host.router.members.node(); signer != nil {
		signed := clusternode.Signed{
			ID: r.sent.ID, Owner: signer.Key(), Caller: r.node.stream.Key, Server: r.node.stream.Server, Tool: r.tool.Name,
			Params: r.params, Result: result,
		}
		var err error
		if answer.Signature, err = signer.Sign(signed.Bytes()); err != nil {
			r.node.host.router.options.Log.Warn("can't sign a result for another node", zap.String("server", r.node.stream.Server), zap.Error(err))
		}
	}
	return wire.SetMeta(result, clusternode.MetaKey, wire.Marshal(answer))
}

// A nodeClient is the client of a request of another node.
type nodeClient struct {
	Client
	request *NodeRequest
}

// Caller returns the caller; see [session.CallerOf]. It may not log in at servers and is not on
// this machine. Its principal is no principal of this router, even if the hashes are equal.
func (c nodeClient) Caller() session.Caller {
	return session.Caller{Principal: c.request.Principal, Name: c.request.PrincipalName, OverHTTP: true}
}

// Sending implements [session.Sending]: a client of another node may have given up while this process was
// frozen, and no message can have said so.
func (c nodeClient) Sending(bool) error {
	switch v := c.request.node; {
	case !v.Allowed():
		return errRevoked
	case v.stream.Lapsed():
		return errLapsed
	}
	return nil
}
