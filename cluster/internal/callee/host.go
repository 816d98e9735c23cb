package callee

import (
	"context"
	"encoding/json"

	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/session"
)

// A Host is the router that has the servers which this node shares.
type Host interface {
	// Execute carries out a request of a client of another node. Its error is a [*session.Error],
	// or wraps [session.ErrNotSent] or [session.ErrClosed], as errors of a session do.
	Execute(ctx context.Context, in clusternode.Incoming) (result json.RawMessage, degraded bool, err error)

	// Subscribe subscribes to a resource for a client of another node, until cancel is called. done
	// is closed if the subscription ends.
	Subscribe(ctx context.Context, in clusternode.Incoming) (done <-chan struct{}, cancel func(), err error)

	// Listen calls hear with messages of servers that belong to no request, until stop is called.
	// hear does not block.
	Listen(hear func(server string, owner session.Client, m session.Message)) (stop func())

	// Keeps reports whether a client of another node has a session of its own with the server.
	Keeps(server string, home session.Client) bool

	// Release ends the sessions and subscriptions that only a client of another node uses.
	Release(home session.Client)

	// Tell passes on a notification of a client to its servers. It does not wait for them.
	Tell(home session.Client, method string, params json.RawMessage)

	// SetLevel has servers send log messages from the level on.
	SetLevel(ctx context.Context, level string)
}
