package telemetry

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/protobuf/proto"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A collector takes spans as OpenTelemetry's own messages have them.
type collector struct {
	*httptest.Server
	answer func(n int) (status int, body string) // to the nth request, from 1; nil is yes

	mu       sync.Mutex // guards the fields below
	requests []*http.Request
	spans    []*tracepb.Span
	resource map[string]string
}

func newCollector(t *testing.T) *collector {
	c := &collector{resource: make(map[string]string)}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = append(c.requests, r)
	body := io.Reader(r.Body)
	if r.Header.Get("Content-Encoding") == "gzip" {
		var err error
		if body, err = gzip.NewReader(body); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
	}
	raw, err := io.ReadAll(body)
	var sent tracepb.TracesData // which has the fields of an ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(raw, &sent)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if c.answer != nil {
		status, body := c.answer(len(c.requests))
		w.Header().Set("Content-Type", "application/x-protobuf")
		w.WriteHeader(status)
		io.WriteString(w, body)
		if status != http.StatusOK {
			return
		}
	}
	for _, of := range sent.ResourceSpans {
		for _, a := range of.Resource.Attributes {
			c.resource[a.Key] = a.Value.GetStringValue()
		}
		for _, by := range of.ScopeSpans {
			if by.Scope.Name != scope {
				http.Error(w, "made by "+by.Scope.Name, http.StatusBadRequest)
			}
			c.spans = append(c.spans, by.Spans...)
		}
	}
}

// openTraces opens traces with these variables alone as the environment.
func openTraces(t *testing.T, variables ...string) (*Traces, *observer.ObservedLogs) {
	t.Helper()
	for _, v := range os.Environ() {
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "OTEL_") {
			t.Setenv(name, "")
		}
	}
	for _, v := range variables {
		name, value, _ := strings.Cut(v, "=")
		t.Setenv(name, value)
	}
	core, logged := observer.New(zapcore.InfoLevel)
	return OpenTraces("1.2.3", zap.New(core)), logged
}

// export makes a span, and closes the traces.
func export(t *testing.T, traces *Traces) {
	t.Helper()
	_, span := traces.Tracer().Start(context.Background(), "x")
	span.End()
	traces.Close(t.Context())
}

func TestTraces(t *testing.T) {
	c := newCollector(t)
	traces, _ := openTraces(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+c.URL+"/base/", "OTEL_EXPORTER_OTLP_HEADERS=x-key=a%20b, y=2",
		"OTEL_EXPORTER_OTLP_COMPRESSION=gzip", "OTEL_RESOURCE_ATTRIBUTES=team=tools,service.version=mine")
	parent := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1, 2}, SpanID: trace.SpanID{3}, TraceFlags: trace.FlagsSampled, Remote: true})
	ctx, first := traces.Tracer().Start(trace.ContextWithRemoteSpanContext(context.Background(), parent), "first", trace.WithSpanKind(trace.SpanKindServer),
		trace.WithAttributes(attribute.String("s", "é\xff"), attribute.Int("i", -5), attribute.Bool("b", true), attribute.Float64("f", 1.5), attribute.StringSlice("l", []string{"x"})))
	_, second := traces.Tracer().Start(ctx, "second", trace.WithSpanKind(trace.SpanKindClient))
	second.SetStatus(codes.Error, "why")
	second.End()
	first.End()
	traces.Close(t.Context())

	if len(c.spans) != 2 || len(c.requests) != 1 {
		t.Fatalf("%d spans in %d requests, want 2 in 1", len(c.spans), len(c.requests))
	}
	r := c.requests[0]
	if r.URL.Path != "/base/v1/traces" || r.Header.Get("X-Key") != "a b" || r.Header.Get("Y") != "2" || r.Header.Get("Content-Type") != "application/x-protobuf" {
		t.Errorf("asked for %s with %v", r.URL, r.Header)
	}
	for key, want := range map[string]string{"service.name": "metarouter", "service.version": "mine", "team": "tools", "telemetry.sdk.name": "opentelemetry"} {
		expect.Equal(t, c.resource[key], want, "%s", key)
	}
	inner, outer := c.spans[0], c.spans[1]
	traceID, spanID := parent.TraceID(), parent.SpanID()
	if string(outer.TraceId) != string(traceID[:]) || string(outer.ParentSpanId) != string(spanID[:]) || outer.Kind != tracepb.Span_SPAN_KIND_SERVER || outer.Flags != 0x301 {
		t.Errorf("got %v", outer)
	}
	if string(inner.TraceId) != string(traceID[:]) || string(inner.ParentSpanId) != string(outer.SpanId) || inner.Kind != tracepb.Span_SPAN_KIND_CLIENT || inner.Flags != 0x101 {
		t.Errorf("got %v", inner)
	}
	if inner.Status.Code != tracepb.Status_STATUS_CODE_ERROR || inner.Status.Message != "why" || outer.Status.Code != tracepb.Status_STATUS_CODE_UNSET {
		t.Errorf("got %v and %v", inner.Status, outer.Status)
	}
	if outer.StartTimeUnixNano == 0 || outer.EndTimeUnixNano < inner.EndTimeUnixNano || outer.Name != "first" {
		t.Errorf("got %v", outer)
	}
	got := make(map[string]any)
	for _, a := range outer.Attributes {
		got[a.Key] = a.Value.String()
	}
	b, _ := json.Marshal(got)
	if text := string(b); !strings.Contains(text, "é\ufffd") || !strings.Contains(text, "int_value:-5") || !strings.Contains(text, "bool_value:true") ||
		!strings.Contains(text, "double_value:1.5") || !strings.Contains(text, "x") {
		t.Errorf("the attributes are %s", text)
	}
}

// Only a variable that names an endpoint or the exporter turns traces on, and others turn them off.
func TestTracesAreOff(t *testing.T) {
	for _, variables := range [][]string{
		nil, {"OTEL_SERVICE_NAME=x"}, {"OTEL_TRACES_EXPORTER=zipkin", "OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:1"}, {"OTEL_SDK_DISABLED=true", "OTEL_TRACES_EXPORTER=otlp"},
		{"OTEL_TRACES_EXPORTER=none", "OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:1"}, {"OTEL_SDK_DISABLED=true", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://localhost:1"},
	} {
		traces, logged := openTraces(t, variables...)
		if traces != nil || traces.Tracer() != nil || logged.Len() > 0 {
			t.Errorf("%q: there are traces, or it says %v", variables, logged.All())
		}
		traces.Close(t.Context())
	}
	traces, _ := openTraces(t, "OTEL_TRACES_EXPORTER=otlp")
	if traces.Tracer() == nil {
		t.Error("the exporter's name turns no traces on")
	}
	traces.Close(t.Context())
}

// A collector may have a certificate of its own, and its redirects are not followed, since a header may contain a secret.
func TestRedirect(t *testing.T) {
	elsewhere, redirects := newCollector(t), 0
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		redirects++
		http.Redirect(w, r, elsewhere.URL, http.StatusTemporaryRedirect)
	}))
	t.Cleanup(s.Close)
	trusted := filepath.Join(t.TempDir(), "ca.pem")
	expect.OK(t, os.WriteFile(trusted, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600))
	traces, logged := openTraces(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+s.URL, "OTEL_EXPORTER_OTLP_CERTIFICATE="+trusted, "OTEL_EXPORTER_OTLP_HEADERS=x-key=hush")
	export(t, traces)
	if redirects != 1 || len(elsewhere.requests) > 0 || !strings.Contains(fmt.Sprint(logged.All()), "the collector redirects") {
		t.Errorf("%d redirects, %d requests elsewhere: %v", redirects, len(elsewhere.requests), logged.All())
	}
}

// The log says that a collector does not take spans, and nothing of a secret in the URL, the headers or another variable.
func TestBadCollectors(t *testing.T) {
	c := newCollector(t)
	c.answer = func(int) (int, string) { return http.StatusBadRequest, "wrong" }
	for _, endpoint := range []string{c.URL + "?key=hush", "http://user:hush@" + strings.TrimPrefix(c.URL, "http://"), "localhost:4317"} {
		traces, logged := openTraces(t, "OTEL_EXPORTER_OTLP_ENDPOINT="+endpoint, "OTEL_EXPORTER_OTLP_HEADERS=hush, x-key=hush%zz", "OTEL_EXPORTER_OTLP_TIMEOUT=hush", "OTEL_EXPORTER_OTLP_CERTIFICATE=hush")
		export(t, traces)
		if logged.FilterMessage("the collector did not accept spans; they are lost").Len() != 1 || strings.Contains(fmt.Sprint(logged.All()), "hush") {
			t.Errorf("%s: says %v", endpoint, logged.All())
		}
	}
}
