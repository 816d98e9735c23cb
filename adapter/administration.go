package adapter

import (
	"context"
	"fmt"
	"net"
	"slices"

	"github.com/mcp-metarouter/metarouter/adapter/internal/scope"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/approval"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/registry"
)

// Scope returns the router for clients that have chosen all of these profiles: each must allow a
// tool. A profile is a name, a union such as "dev|ops" (one of them must allow the tool), or "@read"
// (all but the tools that may write). Without a choice, the profile "default" applies if it exists.
func (r *Router) Scope(chosen ...string) *View {
	return scoped{r, scope.New(whole{r.current, r.registry}, slices.Clone(chosen)...)}.view()
}

// whole is the router as [scope.New] needs it.
type whole struct {
	*holder
	*registry.Registry
}

// administration is for administrators of the router.
type administration struct{ router *Router }

// Config returns the configuration in use, with servers turned on or off by hand.
func (a administration) Config() config.Config { return a.router.current.load().config }

// Configured returns the configuration as its files have it.
func (a administration) Configured() config.Config { return a.router.current.load().file }

// Edited returns a channel that is closed when another configuration is in use. Take it
// before Config, and no edit is missed.
func (a administration) Edited() <-chan struct{} { return a.router.current.load().replaced }

// Audit records an event that is no call, with [Options].Audit.
func (a administration) Audit(e AuditEvent) { a.router.options.Audit.Record(e) }

// Approvals returns the desk with the calls that wait for a person's approval.
func (a administration) Approvals() *approval.Desk { return a.router.approvals }

// Seen notes that a person has seen how the definitions of the server's tools changed; see
// LastSeen of [registry.Offer].
func (a administration) Seen(server string) error { return a.router.writer.Seen(server) }

// ConfirmHints notes that a person has confirmed the hints that were shown, by the server's own
// names of its tools; see Confirmed of [registry.Offer]. A tool that has other hints by now is an
// error, and stays unconfirmed.
func (a administration) ConfirmHints(server string, shown map[string]registry.Hints) error {
	return a.router.writer.ConfirmHints(server, shown)
}

// ClusterReport returns the state of the connection to the cluster. ok is false if the router is in no cluster.
func (a administration) ClusterReport() (r clusternode.Report, ok bool) {
	node := a.router.members.node()
	if node == nil {
		return r, false
	}
	return node.Report(), true
}

// Address returns the address of this router for DialRouter of trusted nodes, "" if they can't reach it.
func (a administration) Address() string {
	if node := a.router.members.node(); node != nil {
		return node.Address()
	}
	return ""
}

// DialRouter opens a stream to another router, by its address. The error wraps [ErrNotSent].
func (a administration) DialRouter(ctx context.Context, address string) (net.Conn, error) {
	node := a.router.members.node()
	if node == nil {
		return nil, fmt.Errorf("%w: this router is in no cluster", ErrNotSent)
	}
	return node.DialRouter(ctx, address)
}
