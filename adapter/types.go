package adapter

import (
	"github.com/mcp-metarouter/metarouter/internal/approval"
	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/internal/login"
	"github.com/mcp-metarouter/metarouter/internal/process"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

// The types that tools are found and run with.
type (
	// A NormalizedTool is one tool of one server: its ID, description, schema and tags.
	NormalizedTool = registry.NormalizedTool

	// A Query is a task, with conditions on the tools that may do it.
	Query = selector.Query

	// A Ranking is the tools that were found for a query, the best first.
	Ranking = selector.Ranking

	// A Candidate is one tool of a ranking, with its score.
	Candidate = selector.Candidate

	// A Selection is the tool that was chosen for a query, or the reason why none was.
	Selection = selector.Selection

	// An Explanation is what a score is made of.
	Explanation = selector.Explanation

	// A Call is a tool with arguments.
	Call = selector.Call

	// A Result is what a call came to: a CallToolResult as JSON.
	Result = selector.Result
)

// A GuardProcess is a process of [Options].Guard that was started before the router.
type GuardProcess = process.GuardProcess

// The types of a router's clients and their errors.
type (
	// A Client is asked by servers for sampling, elicitation and roots.
	Client = session.Client

	// A Message is a JSON-RPC notification or request of a server.
	Message = session.Message

	// A Request is a JSON-RPC request to a server, for [Scope.Relay].
	Request = session.Request

	// An Error is a JSON-RPC error with which an MCP server has answered.
	Error = session.Error

	// A Desk has the calls that wait for a person's approval; see [Parts.Approvals].
	Desk = approval.Desk

	// A Status is the state of an MCP server at one moment.
	Status = status.Status
)

// The types of logins at remote servers.
type (
	// Logins are the logins of a router; see [Parts.Logins].
	Logins = login.Logins

	// A LoginRequest begins a login; see [Parts.BeginLogin], which sets its Server.
	LoginRequest = login.Request

	// A PendingLogin is a login that waits for its person.
	PendingLogin = login.Pending

	// A LoginState says how the login at a server is.
	LoginState = login.State
)

// The types of the audit log.
type (
	// An AuditEvent is what an administrator or a client did besides calls.
	AuditEvent = audit.Event

	// An AuditRecorder takes such events.
	AuditRecorder = audit.Recorder
)

// ErrNotSent is wrapped by errors of calls that have not reached a tool, so that making
// them again does no harm.
var ErrNotSent = session.ErrNotSent
