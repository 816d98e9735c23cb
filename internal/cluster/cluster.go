package cluster

import (
	"context"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

// Options configure a Node. Host and Handler must be set.
type Options struct {
	KeyFile string // of the node's own key; made if it does not exist
	Version string // of the router
	UseOnly bool   // it shares nothing, and leaves sharing to another router of this node
	Host    Host
	Handler Handler
	Log     *zap.Logger
}

// A Handler is notified of servers of other nodes that come and go, like the Handler of package
// supervisor. The session lists the announced definitions.
type Handler interface {
	Learn(ctx context.Context, entry config.Server, listing session.Session) error
	Forget(server string)
}

// A Host is the router that has the servers which a node shares.
type Host interface {
	// Offers returns the offers of the router's own servers, and a channel that is closed at the
	// next change.
	Offers() (map[string]clusternode.Offer, <-chan struct{})

	// State returns the state and the load of a server.
	State(server string) (state status.State, calls, waiting int)

	// Serve serves another node until the stream or ctx ends.
	Serve(ctx context.Context, s clusternode.Stream)
}
