package session

import (
	"encoding/json"

	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// A TraceContext says to which trace a request belongs, and under which span of it: as
// W3C Trace Context and W3C Baggage have it. MCP reserves the keys "traceparent",
// "tracestate" and "baggage" of _meta for that; HTTP has headers of the same names. The
// zero value belongs to none.
type TraceContext struct {
	Parent  string // traceparent: version, trace, span and flags in hexadecimal
	State   string // tracestate, what tracing systems add; "" without Parent
	Baggage string // baggage, what programs add
}

// The longest values that are believed: as long as W3C has all programs pass on.
const (
	maxTraceState = 512
	maxBaggage    = 8192
)

// ReadTrace returns the trace context that get knows by its keys. What is not as W3C has
// it is left out, so that the rest may stand in a header.
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
	return ReadTrace(func(key string) string {
		value, _ := wire.String(wire.Member(meta, key))
		return value
	})
}

// ID returns the trace's id, 32 hex digits, "" if there is none.
func (t TraceContext) ID() string {
	if t.Parent == "" {
		return ""
	}
	return t.Parent[3:35]
}

// Into returns a request's _meta, which may be nil, with the trace context in it. A
// tracestate that belongs to another traceparent is taken away.
func (t TraceContext) Into(meta json.RawMessage) json.RawMessage {
	if meta == nil {
		meta = json.RawMessage("{}")
	}
	if t.Parent != "" {
		meta = wire.SetMember(meta, "traceparent", wire.AppendString(nil, t.Parent))
		meta = wire.DeleteMember(meta, "tracestate")
	}
	if t.State != "" {
		meta = wire.SetMember(meta, "tracestate", wire.AppendString(nil, t.State))
	}
	if t.Baggage != "" {
		meta = wire.SetMember(meta, "baggage", wire.AppendString(nil, t.Baggage))
	}
	return meta
}

// isTraceParent reports whether s is a traceparent. Of later versions than 00 only the
// beginning is known, and more may follow it.
func isTraceParent(s string) bool {
	if len(s) < 55 || s[2] != '-' || s[35] != '-' || s[52] != '-' {
		return false
	}
	version, trace, span, flags := s[:2], s[3:35], s[36:52], s[53:55]
	for _, part := range [...]string{version, trace, span, flags} {
		if !isHex(part) {
			return false
		}
	}
	switch {
	case version == "ff", isZero(trace), isZero(span), len(s) > maxTraceState, !isPrintable(s):
		return false
	case len(s) > 55:
		return version != "00" && s[55] == '-'
	}
	return true
}

func isHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

func isZero(s string) bool {
	for i := range len(s) {
		if s[i] != '0' {
			return false
		}
	}
	return true
}

func isPrintable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}
