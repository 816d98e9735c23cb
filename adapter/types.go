package adapter

import (
	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/internal/classify"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/script/host"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

type (
	// A Client is asked by servers for sampling, elicitation and roots; see From of [selector.Call].
	Client = session.Client

	// A Message is a JSON-RPC notification or request of a server.
	Message = session.Message

	// A Request is a JSON-RPC request to a server, for Relay of a [View].
	Request = session.Request

	// An Error is a JSON-RPC error with which an MCP server has answered.
	Error = session.Error

	// A ScriptRun is a script and the client for which it runs, for RunScript of a [View].
	ScriptRun = host.Run

	// A ServerInfo is the state of one server, and its use.
	ServerInfo = status.Server

	// A Status is the state of an MCP server at one moment.
	Status = status.Status

	// A NodeInfo is a node of the cluster as people see it.
	NodeInfo = clusternode.Info

	// A Classifier sorts texts into the categories of a configuration, or into capability tags.
	Classifier = classify.Classifier

	// An AuditEvent is an act of an administrator or a client, but no call.
	AuditEvent = audit.Event

	// An AuditRecorder takes such events.
	AuditRecorder = audit.Recorder
)

// ErrNotSent is wrapped by errors of calls that have not reached a tool, so that making
// them again does no harm.
var ErrNotSent = session.ErrNotSent
