package adapter

import (
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

// The types of a router's clients and their errors.
type (
	// A Client is asked by servers for sampling, elicitation and roots.
	Client = session.Client

	// A Message is a JSON-RPC notification or request of a server.
	Message = session.Message

	// An Error is a JSON-RPC error with which an MCP server has answered.
	Error = session.Error

	// A Status is the state of an MCP server at one moment.
	Status = status.Status
)

// ErrNotSent is wrapped by errors of calls that have not reached a tool, so that making
// them again does no harm.
var ErrNotSent = session.ErrNotSent
