package server

import (
	"cmp"
	"encoding/json"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/session"
)

// What no server has answered says in _meta how it was run all the same.

// ownMeta returns the keys for the result of one of our own tools.
func (s *Server) ownMeta(t *ownTool, c *call, began time.Time, verified bool) json.RawMessage {
	return selector.Unrouted{
		Tool: &registry.NormalizedTool{Server: ownName, Name: t.Name}, Node: s.node, Version: s.opts.Version,
		Began: began, Request: c.meta, Trace: c.trace, Attempts: 1, Verified: verified,
	}.Meta()
}

// unreached answers a call of a server's tool that nobody knows, since the server
// can't be called. began is when it was asked for.
func (s *Server) unreached(called string, why error, c *call, began time.Time) json.RawMessage {
	server, tool, _ := Split(called, s.opts.Separator, s.router.Servers())
	s.unansweredSpan(c, began, nil)
	meta := selector.Unrouted{
		Tool: &registry.NormalizedTool{Server: server, Name: tool}, Node: s.node, Began: began, Request: c.meta, Trace: c.trace,
	}.Meta()
	result := withNew(failure("%s can't be called: %v", called, why), meta)
	traceID, _ := wire.String(wire.Member(meta, "trace_id"))
	s.unanswered(c, selector.Execution{Tool: &registry.NormalizedTool{ID: brief(called), Server: server}, Trace: traceID, Began: began, Result: result}, why)
	return result
}

// unknown tells of a call of what is no tool, or of several.
func (s *Server) unknown(called string, why error, c *call, began time.Time) {
	s.unansweredSpan(c, began, why)
	s.unanswered(c, selector.Execution{
		Tool: &registry.NormalizedTool{ID: brief(called)}, Trace: cmp.Or(c.trace, session.TraceIn(c.meta).ID()), Began: began,
	}, why)
}

// unansweredSpan makes the span of a call that no tool has answered.
func (s *Server) unansweredSpan(c *call, began time.Time, why error) {
	_, span := selector.StartSpan(c.ctx, s.opts.Tracer, "tools/call", "", c.meta, trace.WithTimestamp(began))
	c.tracedBy(span)
	selector.EndSpan(span, selector.FailureOf(selector.Unanswered, why))
}

// unanswered tells the observer of such a call.
func (s *Server) unanswered(c *call, e selector.Execution, why error) {
	if s.opts.Observer == nil {
		return
	}
	e.Client, e.Took, e.Outcome, e.Fault, e.Arguments = c.clientName(), time.Since(e.Began), selector.Unanswered, why.Error(), c.args
	s.opts.Observer.Executed(e)
}

// tracedBy notes the trace that the span is in, if it is in one.
func (c *call) tracedBy(span trace.Span) {
	if id := span.SpanContext().TraceID(); id.IsValid() {
		c.trace = id.String()
	}
}

// withNew returns the result with those members of meta in its _meta that this
// lacks.
func withNew(result, meta json.RawMessage) json.RawMessage {
	theirs := wire.Member(result, "_meta")
	if theirs == nil {
		return wire.AddMember(result, "_meta", meta)
	}
	wire.Members(meta, func(key string, value []byte) bool {
		if wire.Member(theirs, key) == nil {
			theirs = wire.SetMember(theirs, key, value)
		}
		return true
	})
	return wire.SetMember(result, "_meta", theirs)
}

// refusedArguments are the data of the error with which plain JSON-RPC answers where
// arguments do not fit a tool's schema. MCP has a tool error for that, since models
// see no others.
type refusedArguments struct {
	Tool     string          `json:"tool"`
	Problems []misfit        `json:"problems"`
	Schema   json.RawMessage `json:"schema"`
	Meta     json.RawMessage `json:"_meta,omitempty"` // as results have it
}

// A misfit is one place where arguments do not fit.
type misfit struct {
	Path     string `json:"path"`     // arguments.a.0
	Expected string `json:"expected"` // such as: got string, want number
}

// mismatched returns the error for arguments that were not passed on.
func mismatched(t *registry.NormalizedTool, problems []string, meta json.RawMessage) error {
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
		Message: "the arguments do not fit the schema of " + data.Tool + ": " + strings.Join(problems, "; "),
		Data:    wire.Marshal(data),
	}
}
