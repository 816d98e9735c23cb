package execute

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
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
		parent := session.TraceIn(meta)
		ctx = propagation.TraceContext{}.Extract(ctx, propagation.MapCarrier{"traceparent": parent.Parent, "tracestate": parent.State})
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
	failure := string(e.Outcome)
	if refused, ok := errors.AsType[*session.Error](err); ok {
		failure = strconv.FormatInt(refused.Code, 10)
	} else if e.Outcome == OK {
		failure = ""
	}
	endSpan(span, failure)
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
