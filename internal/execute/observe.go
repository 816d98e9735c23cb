package execute

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/registry"
)

// An Observer is notified of executions: to count them, to log them, to show them. It is
// called on the goroutine of the call, by many at once, and must not block.
type Observer interface {
	Executed(e Execution)
}

// An Execution is one call of a tool that has ended. Arguments and Result must not be kept after Executed returns.
type Execution struct {
	Tool               *registry.NormalizedTool // that was asked for; without a Name if its server has not listed it, without a Server too if no server has
	Answered           *registry.NormalizedTool // that answered, nil if no tool did
	Client             string                   // the name that the client gives itself; "" if unknown
	Principal, Profile string                   // the PrincipalName and the Profile of the [Call]
	Trace              string                   // trace_id in the result's _meta: 32 hex digits; "" without a result and a trace
	Script             string                   // the Script of the [Call]
	Began              time.Time
	Took               time.Duration
	Attempts           int // to reach a server; may be 0
	Outcome            Outcome
	Fault              string // the failure; "" for OK and ToolError

	Arguments json.RawMessage // as the client sent them, or as they were repaired
	Result    json.RawMessage // nil without a result
	Cached    bool            // the result is from the cache
}

// An Outcome says how an execution ended. There are no others than these, so that they can be counted.
type Outcome string

const (
	OK               Outcome = "ok"
	ToolError        Outcome = "tool_error"        // the server's result has isError
	ServerError      Outcome = "server_error"      // the server answered with a JSON-RPC error
	InvalidArguments Outcome = "invalid_arguments" // they do not fit the schema; the server was not called
	NotApproved      Outcome = "not_approved"      // a person was to be asked, and did not agree; the server was not called
	NoAnswer         Outcome = "no_answer"         // no server could be called, or no server answered
	Cancelled        Outcome = "cancelled"         // the client no longer wants the result
)

// Outcomes are all there are.
var Outcomes = []Outcome{OK, ToolError, ServerError, InvalidArguments, NotApproved, NoAnswer, Cancelled}

// OutcomeOf returns how an execution with this result or error ended, and the fault.
func OutcomeOf(r Result, err error) (o Outcome, fault string) {
	refused, ok := errors.AsType[*session.Error](err)
	_, asked := errors.AsType[unapproved](r.Err)
	switch {
	case ok:
		return ServerError, refused.Message
	case err != nil:
		return Cancelled, err.Error()
	case len(r.Mismatch) > 0:
		return InvalidArguments, r.Mismatch[0]
	case asked:
		return NotApproved, r.Err.Error()
	case r.Err != nil:
		return NoAnswer, r.Err.Error()
	case r.IsError && r.Tool == nil:
		return NoAnswer, r.Text()
	case r.IsError:
		return ToolError, ""
	}
	return OK, ""
}
