package adapter

import (
	"context"
	"encoding/json"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// The methods below are those of cluster.Host before MCP over NATS. This file goes with them.

func (h *clusterHost) request(in clusternode.Incoming, method string) (*NodeRequest, error) {
	v := &NodeView{h, clusternode.Stream{
		Server: in.Server, Key: in.Key, Node: in.Gateway,
		Lapsed: func() bool { return session.GaveUp(in.Request.From) != nil }, Local: func(t time.Time) time.Time { return t },
	}}
	meta := in.Request.Meta
	if meta == nil {
		meta = json.RawMessage("{}")
	}
	return v.Admit(method, in.Request.Params, wire.SetMember(meta, clusternode.MetaKey, wire.Marshal(clusternode.Request{ID: in.ID, Origin: in.Request.Origin})))
}

func (h *clusterHost) Execute(ctx context.Context, in clusternode.Incoming) (json.RawMessage, bool, error) {
	r, err := h.request(in, in.Request.Method)
	if err != nil {
		return nil, false, err
	}
	if in.Request.Method != "tools/call" {
		result, err := r.Do(ctx, in.Request)
		return result, false, err
	}
	result, err := r.Do(ctx, in.Request)
	return result, string(wire.Member(wire.Member(result, "_meta"), "degraded")) == "true", err
}

func (h *clusterHost) Subscribe(ctx context.Context, in clusternode.Incoming) (done <-chan struct{}, cancel func(), err error) {
	r, err := h.request(in, "resources/subscribe")
	if err != nil {
		return nil, nil, err
	}
	return r.Subscribe(ctx, in.URI, in.Request.From)
}

func (h *clusterHost) Listen(func(server string, owner session.Client, m session.Message)) (stop func()) {
	return func() {}
}

func (h *clusterHost) Keeps(string, session.Client) bool { return false }

func (h *clusterHost) Release(home session.Client) { h.router.supervisor.Release(home) }

func (h *clusterHost) Tell(session.Client, string, json.RawMessage) {}

func (h *clusterHost) SetLevel(context.Context, string) {}
