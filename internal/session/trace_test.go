package session

import (
	"encoding/json"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

const (
	traceID = "4bf92f3577b34da6a3ce929d0e0e4736"
	parent  = "00-" + traceID + "-00f067aa0ba902b7-01"
)

func TestTraceIn(t *testing.T) {
	for _, tt := range []struct {
		meta string
		want TraceContext
	}{
		{``, TraceContext{}},
		{`{}`, TraceContext{}},
		{`{"traceparent":"` + parent + `","tracestate":"a=1,b=2","baggage":"user=me"}`, TraceContext{parent, "a=1,b=2", "user=me"}},
		{`{"tracestate":"a=1","baggage":"user=me"}`, TraceContext{Baggage: "user=me"}},
		{`{"traceparent":"01-` + parent[3:] + `-more"}`, TraceContext{Parent: "01-" + parent[3:] + "-more"}},

		// These are not trace contexts.
		{`{"traceparent":7}`, TraceContext{}},
		{`{"traceparent":""}`, TraceContext{}},
		{`{"traceparent":"` + parent + `-more"}`, TraceContext{}},
		{`{"traceparent":"01-` + parent[3:] + `more"}`, TraceContext{}},
		{`{"traceparent":"ff-` + parent[3:] + `"}`, TraceContext{}},
		{`{"traceparent":"00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01"}`, TraceContext{}},
		{`{"traceparent":"00-00000000000000000000000000000000-00f067aa0ba902b7-01"}`, TraceContext{}},
		{`{"traceparent":"00-` + traceID + `-0000000000000000-01"}`, TraceContext{}},
		{`{"traceparent":"00-` + traceID + `-00f067aa0ba902b7-0g"}`, TraceContext{}},
		{`{"traceparent":"01-` + parent[3:] + `-\r\nX: y"}`, TraceContext{}},
		{`{"traceparent":"` + parent + `","tracestate":"a=\u0000"}`, TraceContext{Parent: parent}},
		{`{"baggage":"a\nb"}`, TraceContext{}},
	} {
		expect.Equal(t, TraceIn(json.RawMessage(tt.meta)), tt.want, "%s", tt.meta)
	}
	expect.Equal(t, (TraceContext{Parent: parent}).ID(), traceID, "the id")
}

// A tracestate stays with its traceparent; the client's other members remain.
func TestTraceInto(t *testing.T) {
	for _, tt := range []struct {
		meta  string
		trace TraceContext
		want  string
	}{
		{"", TraceContext{Parent: parent}, `{"traceparent":"` + parent + `"}`},
		{`{"a":1,"traceparent":"x","tracestate":"old=1"}`, TraceContext{Parent: parent}, `{"a":1,"traceparent":"` + parent + `"}`},
		{`{"baggage":"b=1"}`, TraceContext{Parent: parent, State: "s=1"}, `{"baggage":"b=1","traceparent":"` + parent + `","tracestate":"s=1"}`},
		{`{"a":1}`, TraceContext{}, `{"a":1}`},
	} {
		var meta json.RawMessage
		if tt.meta != "" {
			meta = json.RawMessage(tt.meta)
		}
		expect.Equal(t, string(tt.trace.Into(meta)), tt.want, "%s", tt.meta)
	}
}

// For any input, the values of a trace context can be sent in a header, and are the same after
// a round trip through _meta.
func FuzzTrace(f *testing.F) {
	f.Add(`{"traceparent":"`+parent+`","tracestate":"a=1","baggage":"b=2"}`, parent)
	f.Add(`{"traceparent":"00-`+traceID+`"}`, "ff-")
	f.Add(`[`, "00-\r\n")
	f.Fuzz(func(t *testing.T, meta, header string) {
		for _, trace := range []TraceContext{
			TraceIn(json.RawMessage(meta)),
			ReadTrace(func(string) string { return header }),
		} {
			for _, value := range []string{trace.Parent, trace.State, trace.Baggage} {
				for i := range len(value) {
					if value[i] < ' ' || value[i] > '~' {
						t.Fatalf("%q cannot be sent in a header", value)
					}
				}
			}
			if id := trace.ID(); id != "" && len(id) != 32 {
				t.Fatalf("the id %q", id)
			}
			if got := TraceIn(trace.Into(nil)); got != trace {
				t.Fatalf("got %+v, want %+v", got, trace)
			}
			if into := trace.Into(json.RawMessage(`{"a":1}`)); !wire.Valid(into) {
				t.Fatalf("%s is no JSON", into)
			}
		}
	})
}
