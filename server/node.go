package server

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/server/internal/budget"
	"github.com/mcp-metarouter/metarouter/server/internal/catalog"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
	"github.com/mcp-metarouter/metarouter/server/internal/stdio"
)

// beginWithin has a request of a node begin that has parameters of the size, and counts it until it ends.
func beginWithin(b *budget.Budget, node string, size int, begin func() (*conversation.Request, error)) (*conversation.Request, error) {
	if b.Take(budget.Requests, node, size) != nil {
		return nil, errNodeBusy
	}
	r, err := begin()
	if err != nil {
		b.Release(budget.Requests, node, size)
		if err == conversation.ErrBusy {
			err = errNodeBusy
		}
		return nil, err
	}
	context.AfterFunc(r.Context(), func() { b.Release(budget.Requests, node, size) })
	return r, nil
}

// A nodeServer is the MCP server that other nodes see of one server of this router: with the server's
// own names and results, and nothing of ours. It serves all streams for the server, so that
// a request that was suspended can be resumed on another stream, also by another gateway of the client.
type nodeServer struct {
	view          *adapter.NodeView // of the first stream
	clients       *conversation.Clients
	subscriptions *subscriptions
	budget        *budget.Budget
	stop          func() // ends listening to the server

	// Guarded by mu of nodeServers.
	streams int
	last    time.Time // when the last stream ended
}

// nodeServers are the servers that other nodes see: one for each server, made for its first
// stream.
type nodeServers struct {
	budget *budget.Budget // common to all of them
	log    *zap.Logger

	mu    sync.Mutex             // guards the field below
	byKey map[string]*nodeServer // by the name of the server
}

func newNodeServers(log *zap.Logger) *nodeServers {
	return &nodeServers{budget: budget.Nodes(), log: log, byKey: make(map[string]*nodeServer)}
}

// ServeNode serves another node over conn until ctx or conn ends, and closes conn. An error means that
// reading or writing failed.
func (s *Servers) ServeNode(ctx context.Context, v *adapter.NodeView, conn net.Conn) error {
	if v.Server() == "" {
		return s.serveGateway(ctx, v, conn)
	}
	n := s.nodes.enter(v)
	defer s.nodes.leave(n)
	return stdio.Serve(ctx, stdio.Options{Clients: n.clients, Node: &stdio.Node{
		Identity: conversation.Identity{Principal: v.Key(), PrincipalName: v.Node()},
		Begin: func(ctx context.Context, stream *conversation.Conversation, m conversation.Message, w conversation.Writer) (*conversation.Request, error) {
			return n.begin(ctx, v, stream, m, w)
		},
	}}, conn, conn)
}

// enter returns the server for a stream, which it counts.
func (s *nodeServers) enter(v *adapter.NodeView) *nodeServer {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.byKey[v.Server()]
	if n == nil {
		n = newNodeServer(v, s)
		s.byKey[v.Server()] = n
	}
	n.streams++
	return n
}

func (s *nodeServers) leave(n *nodeServer) {
	s.mu.Lock()
	n.streams--
	n.last = time.Now()
	s.mu.Unlock()
	s.abandonRevoked()
}

// abandonRevoked gives up the suspended calls of nodes that may not use their server any more: they outlive their streams.
func (s *nodeServers) abandonRevoked() {
	s.mu.Lock()
	nodes := slices.Collect(maps.Values(s.byKey))
	s.mu.Unlock()
	for _, n := range nodes {
		n.clients.AbandonVisitorsOf(func(who conversation.Identity) bool {
			key, _, _ := strings.Cut(who.Principal, "/")
			return !n.view.Allows(key)
		})
	}
}

// end ends the servers for nodes without a stream, that had none for the time.
func (s *nodeServers) end(idle time.Duration) {
	s.mu.Lock()
	var ended []*nodeServer
	for key, n := range s.byKey {
		if n.streams == 0 && time.Since(n.last) >= idle {
			delete(s.byKey, key)
			ended = append(ended, n)
		}
	}
	s.mu.Unlock()
	for _, n := range ended {
		n.stop()
		n.clients.End()
	}
}

func newNodeServer(v *adapter.NodeView, all *nodeServers) *nodeServer {
	n := &nodeServer{view: v, budget: all.budget}
	at := func(_ context.Context, uri string) ([]catalog.Address, error) {
		return []catalog.Address{{Server: v.Server(), URI: uri}}, nil
	}
	n.subscriptions = newSubscriptions(nodeSubscriber{}, at, all.budget, all.log)
	n.clients = conversation.New(conversation.Options{
		Router: v, Methods: n.methods(), Joined: func() {}, Rules: v.Rules,
		Left: func(c *conversation.Conversation) { n.subscriptions.left(c) },
		Log:  all.log, Budget: all.budget,
		Raw: func(r *conversation.Request, result json.RawMessage) json.RawMessage {
			return admitted(r.Context()).Answer(result)
		},
	})
	n.stop = v.Listen(n.hear)
	return n
}

func (n *nodeServer) methods() map[string]conversation.Method {
	do := func(ctx context.Context, c conversation.Call) (json.RawMessage, error) {
		return admitted(ctx).Do(ctx, session.Request{From: c.From})
	}
	return map[string]conversation.Method{
		"initialize":               {Handle: n.initialize, Legacy: true, Quick: true},
		"ping":                     {Handle: ping, Legacy: true, Quick: true},
		"logging/setLevel":         {Handle: n.setLevel, Legacy: true},
		"resources/subscribe":      {Handle: n.subscriptions.subscribe, Legacy: true},
		"resources/unsubscribe":    {Handle: n.subscriptions.unsubscribe, Legacy: true},
		"server/discover":          {Handle: n.discover, Modern: true, Quick: true},
		"subscriptions/listen":     {Handle: n.subscriptions.listen, Modern: true},
		"tasks/get":                {Handle: do, Modern: true},
		"tasks/update":             {Handle: do, Modern: true},
		"tasks/cancel":             {Handle: do, Modern: true},
		"tools/list":               {Handle: n.list},
		"prompts/list":             {Handle: n.list},
		"resources/list":           {Handle: n.list},
		"resources/templates/list": {Handle: n.list},
		"skills/list":              {Handle: n.list},
		"skills/get":               {Handle: do},
		"tools/call":               {Handle: do, Asks: true},
		"prompts/get":              {Handle: do, Asks: true},
		"resources/read":           {Handle: do, Asks: true},
		"completion/complete":      {Handle: do},
	}
}

// admittedKey is the key of a request's [adapter.NodeRequest] in its context.
type admittedKey struct{}

func admitted(ctx context.Context) *adapter.NodeRequest {
	return ctx.Value(admittedKey{}).(*adapter.NodeRequest)
}

// begin lets a request in that came on the stream of v. A request of the modern era is from any client of the
// node, without a session.
func (n *nodeServer) begin(ctx context.Context, v *adapter.NodeView, stream *conversation.Conversation, m conversation.Message, w conversation.Writer) (*conversation.Request, error) {
	params := json.RawMessage(m.Params)
	if m.Method != "tools/call" { // whose parameters package execute selects
		params = once(wire.DeleteMember(params, "_meta"), "name", "uri", "ref", "taskId")
		if ref := wire.Member(params, "ref"); ref != nil {
			params = wire.SetMember(params, "ref", once(ref, "type", "name", "uri"))
		}
	}
	q, err := v.Admit(m.Method, params, m.Meta)
	if err != nil {
		return nil, err
	}
	m.Meta = q.Meta
	c := stream
	if m.Protocol != nil {
		c = stream.Guest(conversation.Identity{Principal: q.Principal, PrincipalName: q.PrincipalName})
	}
	r, err := beginWithin(n.budget, v.NodeKey(), len(m.Params), func() (*conversation.Request, error) {
		return c.Begin(context.WithValue(ctx, admittedKey{}, q), m, w)
	})
	return r, v.NotSent(err)
}

// errNodeBusy says that the node sends more requests than are carried out at once.
var errNodeBusy = errors.Join(session.ErrNotSent, errors.New("the node is busy"))

// initialize answers the client of a stream of the legacy era.
func (n *nodeServer) initialize(_ context.Context, c conversation.Call) (json.RawMessage, error) {
	capabilities, info := n.view.Describe()
	return wire.Marshal(map[string]any{"protocolVersion": c.Revision(), "capabilities": capabilities, "serverInfo": info}), nil
}

// discover answers a node that begins to use a stream for the modern era.
func (n *nodeServer) discover(context.Context, conversation.Call) (json.RawMessage, error) {
	capabilities, info := n.view.Describe()
	return wire.Marshal(map[string]any{
		"resultType": "complete", "supportedVersions": conversation.Revisions(), "capabilities": capabilities,
		"_meta": map[string]any{conversation.MetaServer: info},
	}), nil
}

// list answers the list requests on one page.
func (n *nodeServer) list(_ context.Context, c conversation.Call) (json.RawMessage, error) {
	member, definitions := n.view.Definitions(c.Method)
	return wire.Marshal(map[string]any{member: append([]json.RawMessage{}, definitions...)}), nil
}

// setLevel sets the log messages that the client of a stream of the legacy era wants.
func (n *nodeServer) setLevel(ctx context.Context, c conversation.Call) (json.RawMessage, error) {
	level, err := setLevel(c, nil)
	if err == nil {
		admitted(ctx).SetLevel(ctx, level)
	}
	return json.RawMessage("{}"), err
}

// hear passes on a message of the server that belongs to no request: to the client that has a session of
// its own with the server, or to those that have asked for changes of it.
func (n *nodeServer) hear(server string, owner session.Client, m session.Message) {
	switch {
	case m.Method == "notifications/resources/updated":
		n.subscriptions.updated(server, owner, m)
	case n.clients.Has(owner):
		owner.Notify(server, m)
	case owner == nil && changes[m.Method] != "":
		n.subscriptions.changed(changes[m.Method], m)
	}
}

// nodeSubscriber subscribes on behalf of the request of a context.
type nodeSubscriber struct{}

func (nodeSubscriber) Subscribe(ctx context.Context, _, uri string, from session.Client) (done <-chan struct{}, cancel func(), err error) {
	return admitted(ctx).Subscribe(ctx, uri, from)
}
