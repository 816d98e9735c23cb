package cluster

import (
	"context"
	"encoding/json"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/cluster/internal/callee"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

// Options configure a Node. Host, Handler and OnMessage must be set.
type Options struct {
	KeyFile   string // of the node's own key; made if it does not exist
	Version   string // of the router
	UseOnly   bool   // it shares nothing, and leaves sharing to another router of this node
	Host      Host
	Handler   Handler
	OnMessage func(server string, owner session.Client, m session.Message) // as in package supervisor; must not block
	Log       *zap.Logger
}

// A Handler is notified of servers of other nodes that come and go, like the Handler of package
// supervisor.
type Handler interface {
	Learn(ctx context.Context, entry config.Server, s session.Session) error
	Forget(server string)
}

// A Host is the router that has the servers which a node shares.
type Host interface {
	// Offers returns the offers of the router's own servers, and a channel that is closed at the
	// next change.
	Offers() (map[string]Offer, <-chan struct{})

	// State returns the state and the load of a server.
	State(server string) (state status.State, calls, waiting int)

	callee.Host
}

// An Offer is a server of this router with its definitions, for other nodes.
type Offer struct {
	Info    session.Info
	Terms   Terms
	Service string // of its entry; "" without

	// The definitions as clients of this router see them, after filters and renaming.
	Tools, Prompts, Resources, Templates []json.RawMessage
}

// Terms are how calls of a server are made.
type Terms struct {
	Timeout       time.Duration `json:"timeout,omitempty"` // 0 is no limit
	MaxConcurrent int           `json:"max_concurrent,omitempty"`
	Validate      string        `json:"validate,omitempty"` // "on", "warn" or "off"
	Retry         string        `json:"retry,omitempty"`    // "hints", "never" or "always"
}

// An Incoming is a request of a client of another node.
type Incoming = callee.Incoming

// NameAt returns the name of a principal at another node, as people see it here.
func NameAt(name, node string) string { return callee.NameAt(name, node) }
