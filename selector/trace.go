package selector

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/session"
)

// Spans are named and described as OpenTelemetry's conventions for MCP have it
// (open-telemetry/semantic-conventions-genai, docs/gen-ai/mcp.md). Nothing that a
// client, a person or a server has written is in them but names of tools and clients:
// no arguments, no results, no messages of errors.

const (
	toolsCall = "tools/call"

	keyMethod    = attribute.Key("mcp.method.name")
	keyTool      = attribute.Key("gen_ai.tool.name")
	keyOperation = attribute.Key("gen_ai.operation.name")
	keyRevision  = attribute.Key("mcp.protocol.version")
	keyNetwork   = attribute.Key("network.transport")
	keyError     = attribute.Key("error.type")
	keyCode      = attribute.Key("rpc.response.status_code")

	keyServer   = attribute.Key("metarouter.server")
	keyAnswered = attribute.Key("metarouter.answered_by")
	keyClient   = attribute.Key("metarouter.client")
	keyOutcome  = attribute.Key("metarouter.outcome")
	keyAttempt  = attribute.Key("metarouter.attempt")
	keyAttempts = attribute.Key("metarouter.attempts")
	keyCached   = attribute.Key("metarouter.cached")
)

// Trace has t make a span of each call, and below it one of each attempt at a server,
// which is told of it in _meta. It must be called before anything is done.
func (s *Selector) Trace(t trace.Tracer) { s.tracer = t }

// StartSpan begins the span of a client's request, below that of ctx if there is one,
// else below the one that the request's _meta names, which may be nil. target is the
// tool that is called, if one is; more is what else there is to say. [EndSpan] must be
// called if it is recording. Without a tracer the span does nothing.
func StartSpan(ctx context.Context, t trace.Tracer, method, target string, meta json.RawMessage, more ...trace.SpanStartOption) (context.Context, trace.Span) {
	if t == nil {
		return ctx, noSpan
	}
	kind := trace.SpanKindInternal
	if !trace.SpanContextFromContext(ctx).IsValid() {
		kind = trace.SpanKindServer
		ctx = trace.ContextWithRemoteSpanContext(ctx, remote(session.TraceIn(meta)))
	}
	more = append(more, trace.WithSpanKind(kind), trace.WithAttributes(naming(method, target)...))
	return t.Start(ctx, spanName(method, target), more...)
}

// noSpan does nothing.
var noSpan = trace.SpanFromContext(context.Background())

// EndSpan ends a span. failure is of what kind what went wrong is, "" if nothing did.
func EndSpan(span trace.Span, failure string) {
	if failure != "" {
		span.SetAttributes(keyError.String(failure))
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

func spanName(method, target string) string {
	if target == "" {
		return method
	}
	return method + " " + target
}

func naming(method, target string) []attribute.KeyValue {
	all := []attribute.KeyValue{keyMethod.String(method)}
	if method == toolsCall {
		all = append(all, keyOperation.String("execute_tool"))
	}
	if target != "" {
		all = append(all, keyTool.String(target))
	}
	return all
}

// remote returns the span that a trace context names, in a process of somebody else's;
// an invalid one if it names none.
func remote(t session.TraceContext) trace.SpanContext {
	if t.Parent == "" {
		return trace.SpanContext{}
	}
	var c trace.SpanContextConfig
	c.TraceID, _ = trace.TraceIDFromHex(t.ID())
	c.SpanID, _ = trace.SpanIDFromHex(t.Parent[36:52])
	if flags, err := strconv.ParseUint(t.Parent[53:55], 16, 8); err == nil {
		c.TraceFlags = trace.TraceFlags(flags) & (trace.FlagsSampled | trace.FlagsRandom)
	}
	c.TraceState, _ = trace.ParseTraceState(t.State) // empty if it is none
	c.Remote = true
	return trace.NewSpanContext(c)
}

// contextOf returns what a server is told of the span.
func contextOf(span trace.SpanContext) session.TraceContext {
	if !span.IsValid() {
		return session.TraceContext{}
	}
	return session.TraceContext{
		Parent: "00-" + span.TraceID().String() + "-" + span.SpanID().String() + "-" + span.TraceFlags().String(),
		State:  span.TraceState().String(),
	}
}

// tell says in the span what became of the execution, and ends it.
func (r *run) tell(span trace.Span, c Call, result Result, err error) {
	if !span.IsRecording() {
		return
	}
	outcome, _ := OutcomeOf(result, err)
	span.SetAttributes(keyServer.String(c.Tool.Server), keyOutcome.String(string(outcome)), keyAttempts.Int(r.attempts))
	if c.Client != "" {
		span.SetAttributes(keyClient.String(c.Client))
	}
	if r.cached {
		span.SetAttributes(keyCached.Bool(true))
	}
	if result.Tool != nil && result.Tool != c.Tool {
		span.SetAttributes(keyAnswered.String(result.Tool.ID))
	}
	EndSpan(span, FailureOf(outcome, err))
}

// FailureOf returns of what kind what went wrong is, for [EndSpan]: the code of a
// JSON-RPC error, else the outcome; "" if nothing did.
func FailureOf(o Outcome, err error) string {
	if refused, ok := errors.AsType[*session.Error](err); ok {
		return strconv.FormatInt(refused.Code, 10)
	}
	if o == OK {
		return ""
	}
	return string(o)
}

// traced is attempt, in a span of its own if there is a tracer: then it is that span
// which the server sees as the one that calls.
func (s *Selector) traced(ctx context.Context, run *run, r session.Request, server, what string, wait time.Duration) (json.RawMessage, error) {
	if s.tracer == nil {
		return s.attempt(ctx, run, r, server, what, wait)
	}
	target := ""
	if r.Method == toolsCall {
		target = what
	}
	ctx, span := s.tracer.Start(ctx, spanName(r.Method, target), trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(naming(r.Method, target)...))
	r.Meta = contextOf(span.SpanContext()).Into(r.Meta)
	raw, err := s.attempt(ctx, run, r, server, what, wait)
	if !span.IsRecording() {
		return raw, err
	}
	span.SetAttributes(keyServer.String(server), keyAttempt.Int(run.attempts))
	if run.session != nil {
		info := run.session.Info()
		network := "pipe"
		if info.Remote {
			network = "tcp"
		}
		span.SetAttributes(keyRevision.String(info.ProtocolVersion), keyNetwork.String(network))
	}
	if refused, ok := errors.AsType[*session.Error](err); ok {
		span.SetAttributes(keyCode.String(strconv.FormatInt(refused.Code, 10)))
	}
	EndSpan(span, errorType(raw, err))
	return raw, err
}

// errorType returns of what kind the failure is of a request to a server, "" if it is
// none.
func errorType(raw json.RawMessage, err error) string {
	_, late := errors.AsType[*lateError](err)
	refused, ok := errors.AsType[*session.Error](err)
	switch {
	case ok:
		return strconv.FormatInt(refused.Code, 10)
	case late:
		return "timeout"
	case errors.Is(err, session.ErrNotSent):
		return "not_sent"
	case errors.Is(err, session.ErrClosed):
		return "session_closed"
	case err != nil:
		return string(Cancelled)
	case string(wire.Member(raw, "isError")) == "true":
		return string(ToolFailed)
	}
	return ""
}
