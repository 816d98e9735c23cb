package adapter

import (
	"context"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

// A loneNode is the node box of a cluster without other nodes.
type loneNode struct {
	clusterNode
	identity *clusternode.Identity
}

func (loneNode) Run(ctx context.Context, _ <-chan config.Cluster) error {
	<-ctx.Done()
	return nil
}
func (loneNode) Changed() <-chan struct{}                       { return nil }
func (loneNode) Name() string                                   { return "box" }
func (loneNode) Nodes() []clusternode.Info                      { return []clusternode.Info{{Node: "box", Self: true}} }
func (loneNode) Settled(context.Context) error                  { return nil }
func (loneNode) State(string) status.State                      { return "" }
func (loneNode) Load(string) (calls, limit int, heard uint64)   { return 0, 0, 0 }
func (loneNode) Terms(string) (t clusternode.Terms, known bool) { return t, false }
func (loneNode) Status() []status.Status                        { return nil }

func (n loneNode) Key() string                      { return n.identity.Key() }
func (n loneNode) Sign(data []byte) ([]byte, error) { return n.identity.Sign(data) }

// Alone returns the options of a router that is the only node of its cluster.
func (o Options) Alone(identity *clusternode.Identity) Options {
	o.onNode = func(*Router, *services) clusterNode { return loneNode{identity: identity} }
	return o
}

// HostOf returns functions of the [cluster.Host] of a router.
func HostOf(r *Router) (serve func(context.Context, clusternode.Stream), offers func() map[string]clusternode.Offer) {
	h := newClusterHost(r)
	return h.Serve, func() map[string]clusternode.Offer { all, _ := h.Offers(); return all }
}
