package execute

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// Spans follow OpenTelemetry's conventions for MCP (open-telemetry/semantic-conventions-genai, docs/gen-ai/mcp.md). Of the texts of clients, persons
// and servers, they hold names of tools and clients alone: no arguments, no results, no error messages.

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
	keyScript   = attribute.Key("metarouter.script")
	keyAnswered = attribute.Key("metarouter.answered_by")
	keyClient   = attribute.Key("metarouter.client")
	keyWho      = attribute.Key("metarouter.principal")
	keyProfile  = attribute.Key("metarouter.profile")
	keyOutcome  = attribute.Key("metarouter.outcome")
	keyAttempt  = attribute.Key("metarouter.attempt")
	keyAttempts = attribute.Key("metarouter.attempts")
	keyCached   = attribute.Key("metarouter.cached")
)

// StartSpan begins the span of a client's request. Its parent is the span of ctx, else the span that the request's _meta names; meta may be nil.
// target is the tool that is called, "" for other requests. [EndSpan] must be called if the span is recording. Without a tracer the span does
// nothing.
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

// EndSpan ends the span of an execution that ended with the error, which may be nil.
func EndSpan(span trace.Span, e Execution, err error) {
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(keyOutcome.String(string(e.Outcome)), keyAttempts.Int(e.Attempts))
	if e.Cached {
		span.SetAttributes(keyCached.Bool(true))
	}
	said := []attribute.KeyValue{keyServer.String(e.Tool.Server), keyClient.String(e.Client), keyWho.String(e.Principal), keyProfile.String(e.Profile), keyScript.String(e.Script)}
	if e.Answered != nil && e.Answered != e.Tool {
		said = append(said, keyAnswered.String(e.Answered.ID))
	}
	for _, a := range said {
		if a.Value.AsString() != "" {
			span.SetAttributes(a)
		}
	}
	endSpan(span, failureOf(e.Outcome, err))
}

// endSpan ends a span. failure is the kind of the failure, "" for success.
func endSpan(span trace.Span, failure string) {
	if failure != "" {
		span.SetAttributes(keyError.String(failure))
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

func spanName(method, target string) string { return strings.TrimSuffix(method+" "+target, " ") }

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

// remote returns the span in another process that a trace context names; an invalid span if it names no span.
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
	c.TraceState, _ = trace.ParseTraceState(t.State) // the zero value if it is not valid
	c.Remote = true
	return trace.NewSpanContext(c)
}

// contextOf returns the span as the trace context of a request.
func contextOf(span trace.SpanContext) session.TraceContext {
	if !span.IsValid() {
		return session.TraceContext{}
	}
	return session.TraceContext{
		Parent: "00-" + span.TraceID().String() + "-" + span.SpanID().String() + "-" + span.TraceFlags().String(),
		State:  span.TraceState().String(),
	}
}

// failureOf returns the kind of a failure for endSpan: the code of a JSON-RPC error, else the outcome; "" for success.
func failureOf(o Outcome, err error) string {
	if refused, ok := errors.AsType[*session.Error](err); ok {
		return strconv.FormatInt(refused.Code, 10)
	}
	if o == OK {
		return ""
	}
	return string(o)
}

// errorType returns the kind of failure of a request to a server, "" for success.
func errorType(raw json.RawMessage, err error) string {
	_, late := errors.AsType[*timeoutError](err)
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
		return string(ToolError)
	}
	return ""
}
