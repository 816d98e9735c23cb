package execute

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

const (
	clientTrace  = "4bf92f3577b34da6a3ce929d0e0e4736"
	clientParent = "00-" + clientTrace + "-00f067aa0ba902b7-01"
)

// tracedBy returns a selector whose spans the recorder has.
func tracedBy(s Sessions, o ...sdk.TracerProviderOption) (*Executor, *tracetest.SpanRecorder) {
	recorder := tracetest.NewSpanRecorder()
	e := newExecutor(registry.New(), s)
	e.Tracer = sdk.NewTracerProvider(append(o, sdk.WithSpanProcessor(recorder))...).Tracer("test")
	return e, recorder
}

func attributeOf(s sdk.ReadOnlySpan, key attribute.Key) string {
	for _, a := range s.Attributes() {
		if a.Key == key {
			return a.Value.String()
		}
	}
	return ""
}

// Each attempt has a span, of which the server is told, below the call's span.
func TestSpansOfACall(t *testing.T) {
	attempts := 0
	var told []string
	s := &stub{policy: Policy{Retry: AlwaysRetry}}
	s.call = func(context.Context, json.RawMessage) (json.RawMessage, error) {
		parent, _ := wire.String(wire.Member(s.meta, "traceparent"))
		told = append(told, parent)
		if attempts++; attempts == 1 {
			return nil, fmt.Errorf("it crashed: %w", session.ErrClosed)
		}
		return json.RawMessage(`{"content":[],"isError":true}`), nil
	}
	sel, recorder := tracedBy(s)
	r, err := sel.Execute(t.Context(), Call{Tool: tool(object), Client: "me", Principal: "hash", PrincipalName: "ci", Profile: "work", Script: "run", Meta: json.RawMessage(`{"traceparent":"` + clientParent + `","tracestate":"a=1","progressToken":7}`)})
	expect.OK(t, err)
	if id, _ := wire.String(wire.Member(r.Meta(), "trace_id")); id != clientTrace {
		t.Errorf("trace_id %s, want %s", id, clientTrace)
	}
	spans := recorder.Ended()
	if len(spans) != 3 {
		t.Fatalf("%d spans, want 3", len(spans))
	}
	first, second, call := spans[0], spans[1], spans[2]
	if call.Name() != "tools/call srv:renamed" || call.SpanKind() != trace.SpanKindServer || call.Parent().SpanID().String() != clientParent[36:52] {
		t.Errorf("the call's span is %s, %s, below %s", call.Name(), call.SpanKind(), call.Parent().SpanID())
	}
	for i, attempt := range []sdk.ReadOnlySpan{first, second} {
		if attempt.Name() != "tools/call original" || attempt.SpanKind() != trace.SpanKindClient || attempt.Parent().SpanID() != call.SpanContext().SpanID() {
			t.Errorf("an attempt's span is %s, %s, below %s", attempt.Name(), attempt.SpanKind(), attempt.Parent().SpanID())
		}
		expect.Equal(t, told[i], "00-"+clientTrace+"-"+attempt.SpanContext().SpanID().String()+"-01", "the server was told")
	}
	if state := string(wire.Member(s.meta, "tracestate")); state != `"a=1"` || string(wire.Member(s.meta, "progressToken")) != "7" {
		t.Errorf("the server was told %s", s.meta)
	}
	for _, tt := range []struct {
		span sdk.ReadOnlySpan
		key  attribute.Key
		want string
	}{
		{first, keyError, "session_closed"}, {first, keyAttempt, "1"}, {first, keyServer, "srv"}, {first, keyTool, "original"}, {first, keyNetwork, "pipe"},
		{second, keyError, "tool_error"}, {second, keyAttempt, "2"},
		{call, keyError, "tool_error"}, {call, keyOutcome, "tool_error"}, {call, keyAttempts, "2"}, {call, keyClient, "me"}, {call, keyWho, "ci"}, {call, keyProfile, "work"}, {call, keyScript, "run"}, {call, keyTool, "srv:renamed"},
		{call, keyMethod, "tools/call"}, {call, keyOperation, "execute_tool"},
	} {
		expect.Equal(t, attributeOf(tt.span, tt.key), tt.want, "%s: %s", tt.span.Name(), tt.key)
	}
	if call.Status().Code != codes.Error || call.Status().Description != "" {
		t.Errorf("the status is %v", call.Status())
	}
}

// Below a span of the same process, a call is a part of what that does.
func TestSpanWithinASpan(t *testing.T) {
	sel, recorder := tracedBy(&stub{call: answers(fine, nil)})
	ctx, outer := sel.Tracer.Start(t.Context(), "outer")
	_, err := sel.Execute(ctx, Call{Tool: tool(object), Meta: json.RawMessage(`{"traceparent":"` + clientParent + `"}`)})
	expect.OK(t, err)
	call := recorder.Ended()[1]
	if call.SpanKind() != trace.SpanKindInternal || call.Parent().SpanID() != outer.SpanContext().SpanID() {
		t.Errorf("got %s below %s", call.SpanKind(), call.Parent().SpanID())
	}
	outer.End()
}

// A span that is not sampled is none, but its trace goes on.
func TestSpanNotSampled(t *testing.T) {
	s := &stub{call: answers(fine, nil)}
	sel, recorder := tracedBy(s, sdk.WithSampler(sdk.NeverSample()))
	r, err := sel.Execute(t.Context(), Call{Tool: tool(object)})
	expect.OK(t, err)
	id, _ := wire.String(wire.Member(r.Meta(), "trace_id"))
	told := session.TraceIn(s.meta)
	if len(recorder.Ended()) > 0 || told.ID() != id || told.Parent[53:] != "00" {
		t.Errorf("%d spans; the trace is %s, and the server was told %s", len(recorder.Ended()), id, told.Parent)
	}
}

// A client says whether its trace is sampled, and its flags reach the server.
func TestFlagsOfClient(t *testing.T) {
	for flags, spans := range map[string]int{"00": 0, "01": 2, "03": 2} {
		s := &stub{call: answers(fine, nil)}
		sel, recorder := tracedBy(s, sdk.WithSampler(sdk.ParentBased(sdk.AlwaysSample())))
		_, err := sel.Execute(t.Context(), Call{Tool: tool(object), Meta: json.RawMessage(`{"traceparent":"` + clientParent[:53] + flags + `"}`)})
		expect.OK(t, err)
		told := session.TraceIn(s.meta)
		if len(recorder.Ended()) != spans || told.ID() != clientTrace || told.Parent[53:] != flags || told.Parent[36:52] == clientParent[36:52] {
			t.Errorf("%s: %d spans, and the server was told %s", flags, len(recorder.Ended()), told.Parent)
		}
	}
}

// What else is asked of a server has spans of the same kinds.
func TestSpansOfRelay(t *testing.T) {
	s := &stub{call: answers("", &session.Error{Code: -32002, Message: "no such resource"})}
	sel, recorder := tracedBy(s)
	if _, err := sel.Relay(t.Context(), "srv", session.Request{Method: "resources/read", Meta: json.RawMessage(`{"traceparent":"` + clientParent + `"}`)}); err == nil {
		t.Fatal("it has not failed")
	}
	spans := recorder.Ended()
	if len(spans) != 2 || spans[0].SpanKind() != trace.SpanKindClient || spans[1].SpanKind() != trace.SpanKindServer {
		t.Fatalf("got %v", spans)
	}
	for _, span := range spans {
		if span.Name() != "resources/read" || attributeOf(span, keyError) != "-32002" || attributeOf(span, keyOperation) != "" || span.SpanContext().TraceID().String() != clientTrace {
			t.Errorf("got %s with %v", span.Name(), span.Attributes())
		}
	}
	expect.Equal(t, attributeOf(spans[0], keyCode), "-32002", "the attributes are %v", spans[0].Attributes())
}

// Without a tracer, what a client says of its trace is not touched, and costs nothing.
func TestUntraced(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() {
		_, span := StartSpan(t.Context(), nil, toolsCall, "s:t", nil)
		endSpan(span, "")
	}); n > 0 {
		t.Errorf("a span that is none takes %v allocations", n)
	}
	s := &stub{call: answers(fine, nil)}
	meta := `{"traceparent": "nonsense" ,"a":1}`
	r, err := execute(t, s, Call{Tool: tool(object), Meta: json.RawMessage(meta)})
	if err != nil || string(s.meta) != meta {
		t.Errorf("the server was told %s, %v", s.meta, err)
	}
	if id, _ := wire.String(wire.Member(r.Meta(), "trace_id")); len(id) != 32 {
		t.Errorf("trace_id %q", id)
	}
}
