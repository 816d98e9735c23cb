package adapter

import (
	"github.com/mcp-metarouter/metarouter/adapter/internal/catalog"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/approval"
	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/login"
	"github.com/mcp-metarouter/metarouter/internal/process"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/registry"
)

type (
	// A Client is asked by servers for sampling, elicitation and roots.
	Client = session.Client

	// A Message is a JSON-RPC notification or request of a server.
	Message = session.Message

	// A Request is a JSON-RPC request to a server, for Relay of a [View].
	Request = session.Request

	// An Error is a JSON-RPC error with which an MCP server has answered.
	Error = session.Error

	// A Desk has the calls that wait for a person's approval; see Approvals of [Parts].
	Desk = approval.Desk

	// A Status is the state of an MCP server at one moment.
	Status = status.Status

	// Logins are the logins of a router; see Logins of [Parts].
	Logins = login.Logins

	// A LoginRequest begins a login; see BeginLogin of [Parts], which sets its Server.
	LoginRequest = login.Request

	// A PendingLogin is a login that waits for its person.
	PendingLogin = login.Pending

	// A LoginState is the state of the login at a server.
	LoginState = login.State

	// An AuditEvent is an act of an administrator or a client, but no call.
	AuditEvent = audit.Event

	// An AuditRecorder takes such events.
	AuditRecorder = audit.Recorder

	// A NodeInfo is a node of the cluster as people see it.
	NodeInfo = clusternode.Info

	// ClusterCounters are the router's counters in its cluster.
	ClusterCounters = clusternode.Counters

	// A ClusterReport is the state of the connection to the cluster.
	ClusterReport = clusternode.Report
)

// ErrNotSent is wrapped by errors of calls that have not reached a tool, so that making
// them again does no harm.
var ErrNotSent = session.ErrNotSent

// A Player plays commands in this process, for tests of this module.
type Player = process.Player

// StoredOffers returns the offers of a configuration's servers that are stored in the data folder, by server.
func StoredOffers(c config.Config, dataDir string) map[string]registry.Offer {
	return catalog.StoredOffers(c, dataDir)
}
