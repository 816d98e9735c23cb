package selector

import (
	"context"
	"encoding/json"

	"go.opentelemetry.io/otel/trace"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector/internal/execute"
)

// A Call is one execution of one tool: Tool and its Arguments, a JSON object. The other
// fields are for routers that call on behalf of a client.
type Call = execute.Call

// A Checked is arguments that were compared with a tool's schema: as the server gets
// them, and a sentence for each fault. Without Faults they fit; a comparison that was given up
// has one that says why, and Unchecked.
type Checked = execute.Checked

// A Result is the answer to a Call: JSON is the server's CallToolResult with our members
// in its _meta. Text, Structured and Meta return its parts. Err says why no tool answered.
type Result = execute.Result

// Sessions is where the selector finds the servers: their live sessions, and the Policy
// of each.
type Sessions = execute.Sessions

// A Policy says how calls to one server are made: deadlines, validation, calls at a time,
// retries, stand-ins, caching and limits of results.
type Policy = execute.Policy

// A Service is a server with replicas on several nodes; see [Policy].
type Service = execute.Service

// A Rate is how often each principal may call a tool.
type Rate = execute.Rate

// What a [Policy] may say of retries and of arguments that do not fit; the zero values are
// to retry what the server declares harmless, and to answer with an error.
const (
	NeverRetry  = execute.NeverRetry
	AlwaysRetry = execute.AlwaysRetry
	Warn        = execute.Warn // log the fault, and call the server
	Off         = execute.Off  // check nothing
)

// A Load is how busy a server is: calls that run, and calls that wait for these.
type Load = execute.Load

// StartWait is how long a call waits for its server to start.
const StartWait = execute.StartWait

// An Execution is one call of a tool that has ended, for an [Observer].
type Execution = execute.Execution

// An Outcome says how an execution ended.
type Outcome = execute.Outcome

// Outcomes that have a meaning of their own outside; see [Outcomes] for all.
const (
	OK               = execute.OK
	ToolError        = execute.ToolError
	InvalidArguments = execute.InvalidArguments
	NoAnswer         = execute.NoAnswer
)

// Outcomes returns all outcomes, so that they can be counted.
func Outcomes() []Outcome { return execute.Outcomes }

// OutcomeOf returns how an execution with this result or error ended, and what went
// wrong.
func OutcomeOf(r Result, err error) (o Outcome, fault string) { return execute.OutcomeOf(r, err) }

// IsTooSoon reports whether err is why a call was not made that came too soon for the [Rate] of its
// tool.
func IsTooSoon(err error) bool { return execute.IsTooSoon(err) }

// A Provenance says how a result came about. Its JSON is what a result's _meta gains.
type Provenance = execute.Provenance

// Node returns the node_id of this machine: its host name, or "local".
func Node() string { return execute.Node() }

// StartSpan begins the span of a client's request, below the span of ctx or else the one
// that the request's _meta names. target is the tool that is called, "" if none is.
// Without a tracer the span does nothing.
func StartSpan(ctx context.Context, t trace.Tracer, method, target string, meta json.RawMessage, more ...trace.SpanStartOption) (context.Context, trace.Span) {
	return execute.StartSpan(ctx, t, method, target, meta, more...)
}

// EndSpan ends a span from [StartSpan]: that of an execution that ended with the error, which
// may be nil. Of the execution it needs the caller and the outcome.
func EndSpan(span trace.Span, e Execution, err error) {
	execute.SetCaller(span, e.Client, e.Principal, e.Profile)
	execute.EndSpan(span, execute.FailureOf(e.Outcome, err))
}

// Execute runs a tool: it checks the arguments against the tool's schema, waits for the
// server's session if need be, and calls. Where the server cannot take the call, a
// stand-in of the server's [Policy] may. A call that may have taken effect is repeated
// only where the Policy or the tool's hints allow it.
//
// A failure of the tool, or of the way to it, is a Result with IsError that says what
// happened and what to do. The error is a [*session.Error] if the server answered with
// one, or the cause of ctx's end.
func (s *Selector) Execute(ctx context.Context, c Call) (Result, error) {
	return s.executor.Execute(ctx, c)
}

// Check compares arguments with the tool's schema, without running the tool. It gives up, see
// [Checked], where that is too costly, if the schema can't be compiled, and once ctx has ended.
func (s *Selector) Check(ctx context.Context, t *registry.NormalizedTool, args json.RawMessage) Checked {
	return s.executor.Check(ctx, t, args)
}

// Fit checks the arguments of another tool, after renaming them to the names that t has
// for them.
func (s *Selector) Fit(ctx context.Context, t *registry.NormalizedTool, args json.RawMessage) Checked {
	return s.executor.Fit(ctx, t, args)
}

// Alike reports whether two tools have the same name, but for case and separators.
func Alike(a, b *registry.NormalizedTool) bool { return execute.Alike(a, b) }

// Fail returns the result of a call that no tool answered, because of err.
func (s *Selector) Fail(c Call, err error) Result { return s.executor.Fail(c, err) }

// Relay sends another request to a server, once its session is up, and returns the
// server's result unchanged. The error wraps a [*session.Error], the server's own or one
// that says why there is no answer and wraps the reason too, or is the cause of ctx's end.
func (s *Selector) Relay(ctx context.Context, server string, r session.Request) (json.RawMessage, error) {
	return s.executor.Relay(ctx, server, r)
}

// ForgetClient forgets with which replicas of servers a client stays that has left. home is its session.
func (s *Selector) ForgetClient(home session.Client) { s.executor.ForgetClient(home) }

// Repairs returns how often results of the server, and arguments for its tools, were repaired.
func (s *Selector) Repairs(server string) []status.Repair { return s.executor.Repairs(server) }

// Load returns how busy the server is with calls.
func (s *Selector) Load(server string) Load { return s.executor.Load(server) }
