package adapter

import (
	"context"

	"github.com/mcp-metarouter/metarouter/cluster"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

// An oldNode has the methods that [cluster.Node] gets with branch wt-node. This file goes then.
type oldNode struct{ *cluster.Node }

func (n oldNode) Dial(_ context.Context, server string) (clusternode.Stream, error) {
	return clusternode.Stream{}, &status.UnavailableError{Server: server, State: status.Failed, Reason: "streams are not there yet"}
}

func (n oldNode) Key() string { return n.Nodes()[0].Key }
