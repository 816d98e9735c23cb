package server

import (
	"context"
	"encoding/json"
	"errors"
	"net"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
	"github.com/mcp-metarouter/metarouter/server/internal/stdio"
)

// A Cluster reaches the other routers of a cluster, as [adapter.Parts] does.
type Cluster interface {
	// Address returns the address of this router, "" if the others can't reach it.
	Address() string

	// DialRouter opens a stream to the router at an address, if both nodes trust each other.
	DialRouter(ctx context.Context, address string) (net.Conn, error)
}

const (
	// maxDials bounds the streams to other gateways that are being opened: a router takes 16 of one node at a time.
	maxDials = 8

	// maxAddress bounds the address in a requestState, in bytes.
	maxAddress = 128
)

var (
	errHolderGone = conversation.InvalidParams("the router that holds the call of this requestState can't be reached; send the request again without the requestState")
	errHolderLost = conversation.Internal("the router that holds the call of this requestState was lost before it answered; whether the call took effect is unknown")
)

// gateways are the routers that serve the same clients as this one. A client that answers a question may reach another
// gateway than the one that has suspended its call. The one that holds the call then gets the request, over a stream
// that is opened for it.
type gateways struct {
	servers *Servers
	cluster Cluster
	dials   chan struct{} // holds an item for each stream that is being opened
}

// A gateway passes requests on for the clients that have chosen the profiles.
type gateway struct {
	*gateways
	profiles string // joined by "+"
}

// of returns the gateway for the clients of profiles, nil without a cluster.
func (g *gateways) of(profiles string) conversation.Gateways {
	if g.cluster == nil {
		return nil
	}
	return gateway{g, profiles}
}

// Address implements [conversation.Gateways].
func (g gateway) Address() string { return g.cluster.Address() }

// Pass implements [conversation.Gateways].
func (g gateway) Pass(ctx context.Context, address string, r *conversation.Request) (json.RawMessage, error) {
	conn, err := g.dial(ctx, address)
	if err != nil {
		g.servers.base.log.Warn("can't reach the router that holds the call of a requestState", zap.Error(err))
		return nil, errHolderGone
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })() // which cancels the request there
	about := clusternode.Request{Origin: session.NewOrigin(g.profiles, nil, r.Principal, r.PrincipalName)}
	params := conversation.WithMeta(r.Params, clusternode.MetaKey, wire.Marshal(about))
	if _, err := conn.Write(wire.AppendRequest(nil, 1, r.Method, params)); err != nil {
		return nil, errHolderGone
	}
	result, err := answerTo(r, wire.NewReader(conn, wire.MaxLine))
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return result, err
}

func (g gateway) dial(ctx context.Context, address string) (net.Conn, error) {
	if len(address) > maxAddress {
		return nil, errors.New("its address is too long")
	}
	select {
	case g.dials <- struct{}{}:
		defer func() { <-g.dials }()
		return g.cluster.DialRouter(ctx, address)
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// answerTo reads the answer to a request that was passed on. The client gets the messages before it.
func answerTo(r *conversation.Request, lines *wire.Reader) (json.RawMessage, error) {
	for {
		line, err := lines.Next()
		if err != nil {
			return nil, errHolderLost
		}
		m, err := wire.Parse(line)
		switch e := new(session.Error); {
		case err != nil || m.Fault != nil:
			return nil, errHolderLost
		case m.Error != nil && json.Unmarshal(m.Error, e) == nil:
			return nil, e
		case m.Result != nil:
			return m.Result, nil
		case m.Method == "notifications/progress", m.Method == "notifications/message":
			r.Notify("", session.Message{Method: m.Method, Params: m.Params})
		}
	}
}

// serve serves another gateway over conn until ctx or conn ends, and closes conn.
func (g *gateways) serve(ctx context.Context, v *adapter.NodeView, conn net.Conn) error {
	streams := conversation.New(conversation.Options{
		Router: v, Joined: func() {}, Left: func(*conversation.Conversation) {}, Secret: g.servers.secretOf("gateway\x00" + v.NodeKey()),
		Log: g.servers.base.log, Budgets: g.servers.bounds.clients,
	})
	return stdio.Serve(ctx, stdio.Options{Clients: streams, Node: &stdio.Node{
		Identity: conversation.Identity{Principal: v.Key(), PrincipalName: v.Node()},
		Begin: func(ctx context.Context, stream *conversation.Conversation, m conversation.Message, w conversation.Writer) (*conversation.Request, error) {
			return g.begin(ctx, v, stream, m, w)
		},
	}}, conn, conn)
}

// begin lets in a request that another gateway passes on. It can only go on with a request that the same principal has
// sent to this router under the same profiles.
func (g *gateways) begin(ctx context.Context, v *adapter.NodeView, stream *conversation.Conversation, m conversation.Message, w conversation.Writer) (*conversation.Request, error) {
	origin, err := v.Passed(m.Meta)
	if err != nil {
		return nil, err
	}
	s := g.servers
	s.mu.Lock()
	server := s.byKey[origin.Profile]
	s.mu.Unlock()
	if server == nil {
		return nil, conversation.ErrNotResumed
	}
	return s.nodes.quotas.begin(v.NodeKey(), len(m.Params), func() (*conversation.Request, error) {
		return server.clients.Resume(ctx, stream, origin.Is, m, w)
	})
}
