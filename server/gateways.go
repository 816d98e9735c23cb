package server

import (
	"context"
	"encoding/json"
	"net"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
	"github.com/mcp-metarouter/metarouter/server/internal/stdio"
)

// maxDials bounds the streams to other gateways that are being opened: a router takes 16 of one node at a time.
const maxDials = 8

var errHolderLost = session.Internal("the router that holds the call of this requestState was lost before it answered; whether the call took effect is unknown")

// pass passes a request on to the router at the address, which has suspended it, over a stream of its own. It returns that
// router's answer.
func (s *Server) pass(ctx context.Context, address string, r *conversation.Request) (json.RawMessage, error) {
	select {
	case s.servers.dials <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	conn, err := s.servers.profiles.DialRouter(ctx, address)
	<-s.servers.dials
	if err != nil {
		s.log.Warn("can't reach the router that holds the call of a requestState", zap.Error(err))
		return nil, conversation.ErrHolderGone
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })() // which cancels the request there
	about := clusternode.Request{Origin: session.NewOrigin(s.key, nil, r.Principal, r.PrincipalName)}
	params, err := wire.ParseObject(wire.SetMeta(r.Params, clusternode.MetaKey, wire.Marshal(about)))
	if err != nil {
		return nil, session.InvalidParams("params: " + err.Error())
	}
	if _, err := conn.Write(wire.AppendRequest(nil, 1, r.Method, params)); err != nil {
		return nil, conversation.ErrHolderGone
	}
	result, err := answerTo(r, wire.NewReader(conn, wire.MaxLine))
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return result, err
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

// serveGateway is ServeNode for the requests that another gateway passes on. Such a request can only go on with a request
// that the same principal has sent to this router under the same profiles.
func (s *Servers) serveGateway(ctx context.Context, v *adapter.NodeView, conn net.Conn) error {
	streams := conversation.New(conversation.Options{
		Router: v, Joined: func() {}, Left: func(*conversation.Conversation) {}, Log: s.Default.log, Budget: s.budget,
	})
	begin := func(ctx context.Context, stream *conversation.Conversation, m conversation.Message, w conversation.Writer) (*conversation.Request, error) {
		q, err := v.Admit(m.Method, m.Params, m.Meta)
		if err != nil {
			return nil, err
		}
		s.mu.Lock()
		server := s.byPlace[place{s.profiles.View, q.Profile}]
		s.mu.Unlock()
		if server == nil {
			return nil, conversation.ErrNotResumed
		}
		return beginWithin(s.nodes.budget, v.NodeKey(), len(m.Params), func() (*conversation.Request, error) {
			return server.clients.Resume(ctx, stream, q.IsOf, m, w)
		})
	}
	who := conversation.Identity{Principal: v.Key(), PrincipalName: v.Node()}
	return stdio.Serve(ctx, stdio.Options{Clients: streams, Node: &stdio.Node{Identity: who, Begin: begin}}, conn, conn)
}
