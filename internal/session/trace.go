package session

import (
	"encoding/json"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/lazy"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// A TraceContext is the trace and the span to which a request belongs, as defined by W3C Trace
// Context and W3C Baggage. MCP reserves the keys "traceparent", "tracestate" and "baggage" of
// _meta for it; HTTP has headers with the same names. The zero value belongs to no trace.
type TraceContext struct {
	Parent  string // traceparent: version, trace, span and flags in hexadecimal
	State   string // tracestate, which tracing systems add; "" without Parent
	Baggage string // baggage, which programs add
}

// The longest accepted values: the lengths that W3C requires every program to pass on.
const (
	maxTraceState = 512
	maxBaggage    = 8192
)

// ReadTrace returns the trace context; get returns the value of a key. Values that do not
// follow the W3C format are left out, so that the others can be sent in a header.
func ReadTrace(get func(key string) string) TraceContext {
	var t TraceContext
	if parent := get("traceparent"); isTraceParent(parent) {
		t.Parent = parent
		if state := get("tracestate"); len(state) <= maxTraceState && isPrintable(state) {
			t.State = state
		}
	}
	if baggage := get("baggage"); len(baggage) <= maxBaggage && isPrintable(baggage) {
		t.Baggage = baggage
	}
	return t
}

// TraceIn returns the trace context in a request's _meta, which may be nil.
func TraceIn(meta json.RawMessage) TraceContext {
	if meta == nil {
		return TraceContext{}
	}
	return ReadTrace(func(key string) string { return wire.Text(meta, key) })
}

// ID returns the id of the trace, 32 hex digits, or "" without a trace.
func (t TraceContext) ID() string {
	if t.Parent == "" {
		return ""
	}
	return t.Parent[3:35]
}

// Into returns a request's _meta, which may be nil, with the trace context. It removes a
// tracestate that belongs to another traceparent.
func (t TraceContext) Into(meta json.RawMessage) json.RawMessage {
	meta = wire.OrEmpty(meta)
	if t.Parent != "" {
		meta = wire.DeleteMember(meta, "tracestate")
	}
	for _, own := range []struct{ key, value string }{{"traceparent", t.Parent}, {"tracestate", t.State}, {"baggage", t.Baggage}} {
		if own.value != "" {
			meta = wire.SetMember(meta, own.key, wire.AppendString(nil, own.value))
		}
	}
	return meta
}

// traceParent matches a traceparent. Versions after 00 begin like version 00, and more may follow.
var traceParent = lazy.Regexp(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-[ -~]*)?$`)

// isTraceParent reports whether s is a traceparent.
func isTraceParent(s string) bool {
	if len(s) > maxTraceState || !traceParent().MatchString(s) {
		return false
	}
	version, trace, span := s[:2], s[3:35], s[36:52]
	return version != "ff" && (version != "00" || len(s) == 55) && strings.Trim(trace, "0") != "" && strings.Trim(span, "0") != ""
}

func isPrintable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}
