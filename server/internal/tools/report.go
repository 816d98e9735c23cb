package tools

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/mcp-metarouter/metarouter/internal/content"
	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
)

// A reporter says how calls went that no server has answered: in the _meta of their
// results, in spans, and to the observer.
type reporter struct{ *Options }

// ended ends the span of a call of one of our own tools, and notifies the observer
// unless a server's tool was executed.
func (r *reporter) ended(own ownTool, c *toolCall, span trace.Span, result json.RawMessage, err error) {
	if r.Tracer == nil && (r.Observer == nil || c.executed) {
		return
	}
	e := selector.Execution{
		Tool: own.NormalizedTool, Answered: own.NormalizedTool, Began: c.began, Attempts: 1, Result: result,
	}
	r.complete(&e, c)
	meta := wire.Member(result, "_meta")
	e.Trace = wire.Text(meta, "trace_id")
	e.Outcome, e.Fault = execute.OutcomeOf(selector.Result{JSON: result, IsError: string(wire.Member(result, "isError")) == "true", Tool: e.Answered}, err)
	if !c.executed && wire.Member(meta, "metarouter/script") != nil { // else it is a server's
		e.Outcome, e.Fault = execute.NotApproved, "the script is held: a call of it waits for an approval"
	}
	execute.EndSpan(span, e, err)
	if r.Observer != nil && !c.executed {
		r.Observer.Executed(e)
	}
}

// meta returns the keys for the result of one of our own tools.
func (r *reporter) meta(t ownTool, c *toolCall, checked bool) json.RawMessage {
	p := execute.NewProvenance(&registry.NormalizedTool{Server: "metarouter", Name: t.Name}, r.Node, c.began, c.trace, c.Meta)
	p.Version, p.Attempts, p.Checked, p.Repaired, p.ArgumentsRepaired = r.Version, 1, checked, c.repaired, c.repaired != ""
	return wire.Marshal(p)
}

// unanswered answers a call that no tool can answer: its name means no tool, or several, or its server can't be called.
func (r *reporter) unanswered(called string, why error, c *toolCall) (result json.RawMessage, err error) {
	_, span := execute.StartSpan(c.Context(), r.Tracer, "tools/call", "", c.Meta, trace.WithTimestamp(c.began))
	c.tracedBy(span)
	e := selector.Execution{
		Tool: &registry.NormalizedTool{ID: conversation.Brief(called)}, Trace: cmp.Or(c.trace, session.TraceIn(c.Meta).ID()), Began: c.began,
		Outcome: execute.NoAnswer,
	}
	if errors.Is(why, session.ErrNotSent) {
		server, tool, _ := r.Catalog.Split(r.Catalog.Unprefixed(called))
		p := execute.NewProvenance(&registry.NormalizedTool{Server: server, Name: tool}, r.Node, c.began, c.trace, c.Meta)
		e.Tool.Server, e.Result = server, withNew(failure("%s can't be called: %v", called, why), wire.Marshal(p))
		e.Trace = p.Trace
	} else {
		why = session.InvalidParams(r.Catalog.View().Names.AsListed(why).Error())
		err = why
	}
	e.Fault = why.Error()
	r.complete(&e, c)
	execute.EndSpan(span, e, err)
	if r.Observer != nil {
		r.Observer.Executed(e)
	}
	return e.Result, err
}

// complete sets who called, with which arguments, and how long the call has taken.
func (r *reporter) complete(e *selector.Execution, c *toolCall) {
	e.Client, e.Principal, e.Profile, e.Arguments = c.ClientName(), c.PrincipalName, r.Settings().Profile, c.Args
	e.Took = time.Since(e.Began)
}

// tracedBy notes the trace of the span, if it has one.
func (c *toolCall) tracedBy(span trace.Span) {
	if id := span.SpanContext().TraceID(); id.IsValid() {
		c.trace = id.String()
	}
}

// withNew returns the result with the members of meta that its _meta lacks.
func withNew(result, meta json.RawMessage) json.RawMessage {
	if theirs := wire.Member(result, "_meta"); theirs != nil {
		return wire.SetMember(result, "_meta", wire.Merge(theirs, meta))
	}
	return wire.AddMember(result, "_meta", meta)
}

// refusedArguments are the data of the error with which plain JSON-RPC answers if
// arguments do not fit a tool's schema. MCP answers with a tool error instead, since
// models see no other errors.
type refusedArguments struct {
	Tool     string          `json:"tool"`
	Problems []misfit        `json:"problems"`
	Schema   json.RawMessage `json:"schema"`
	Meta     json.RawMessage `json:"_meta,omitempty"` // as results have it
}

// A misfit is a place where arguments do not fit.
type misfit struct {
	Path     string `json:"path"`     // arguments.a.0
	Expected string `json:"expected"` // such as: got string, want number
}

// mismatched returns the error for arguments that do not fit the schema, or that could not be compared
// with it, as how says.
func mismatched(t *registry.NormalizedTool, how string, problems []string, meta json.RawMessage) error {
	data := refusedArguments{Tool: t.ID, Schema: t.InputSchema, Meta: meta}
	if t.Server == "" {
		data.Tool = t.Name
	}
	for _, problem := range problems {
		path, expected, _ := strings.Cut(problem, ": ")
		data.Problems = append(data.Problems, misfit{path, expected})
	}
	return &session.Error{
		Code:    session.CodeInvalidParams,
		Message: "the arguments " + how + " the schema of " + data.Tool + ": " + strings.Join(problems, "; "),
		Data:    wire.Marshal(data),
	}
}

// answer returns a tool result that holds v, as text and as structured content.
func answer(v any) json.RawMessage {
	structured := wire.Marshal(v)
	return content.Text(string(structured), structured, false)
}

// failure returns a tool result that says why a call has failed.
func failure(format string, args ...any) json.RawMessage {
	return content.Text(fmt.Sprintf(format, args...), nil, true)
}

// round returns a score as it is shown.
func round(score float64) float64 {
	if math.IsNaN(score) || math.IsInf(score, 0) {
		return 0
	}
	return math.Round(score*1000) / 1000
}
