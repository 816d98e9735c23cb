package telemetry

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	collectorpb "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
)

// A grpcCollector accepts spans over gRPC.
type grpcCollector struct {
	collectorpb.UnimplementedTraceServiceServer
	names   chan string // of the spans, in a buffer
	headers chan metadata.MD
}

func (c grpcCollector) Export(ctx context.Context, r *collectorpb.ExportTraceServiceRequest) (*collectorpb.ExportTraceServiceResponse, error) {
	headers, _ := metadata.FromIncomingContext(ctx)
	c.headers <- headers
	c.names <- r.ResourceSpans[0].ScopeSpans[0].Spans[0].Name
	return &collectorpb.ExportTraceServiceResponse{}, nil
}

// TestTracesOverGRPC sends a span to a collector that speaks gRPC, with the headers and
// the compression of the environment.
func TestTracesOverGRPC(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := grpcCollector{names: make(chan string, 1), headers: make(chan metadata.MD, 1)}
	s := grpc.NewServer()
	collectorpb.RegisterTraceServiceServer(s, c)
	go s.Serve(listener)
	defer s.Stop()

	traces, logged := openTraces(t, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "OTEL_EXPORTER_OTLP_ENDPOINT=http://"+listener.Addr().String(),
		"OTEL_EXPORTER_OTLP_HEADERS=x-key=a%20b", "OTEL_EXPORTER_OTLP_COMPRESSION=gzip")
	_, span := traces.Tracer().Start(context.Background(), "x\xff")
	span.End()
	traces.Close(t.Context())
	if len(c.names) != 1 {
		t.Fatalf("no span came: %v", logged.All())
	}
	if name := <-c.names; name != "x\ufffd" {
		t.Errorf("the span is %q", name)
	}
	if key := (<-c.headers).Get("x-key"); len(key) != 1 || key[0] != "a b" {
		t.Errorf("x-key is %q", key)
	}
}

// TestNoCollectorOverGRPC closes soon although no collector listens.
func TestNoCollectorOverGRPC(t *testing.T) {
	c := newCollector(t)
	c.Close()
	traces, logged := openTraces(t, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc", "OTEL_EXPORTER_OTLP_ENDPOINT="+c.URL, "OTEL_EXPORTER_OTLP_TIMEOUT=3600000")
	_, s := traces.Tracer().Start(context.Background(), "x")
	s.End()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	traces.Close(ctx)
	if n := logged.FilterMessage("the collector did not accept spans; they are lost").Len(); n != 1 || ctx.Err() != nil {
		t.Errorf("logged %v (%v)", logged.All(), ctx.Err())
	}
}

// TestTracesAsJSON sends JSON to the whole endpoint: with its query, user and password,
// of which the log shows none.
func TestTracesAsJSON(t *testing.T) {
	received := make(chan *http.Request, 1)
	body := make(chan string, 1)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		received <- r
		body <- string(raw)
	}))
	defer s.Close()
	traces, logged := openTraces(t, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=http/json", "OTEL_EXPORTER_OTLP_PROTOCOL=grpc",
		"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT="+strings.Replace(s.URL, "//", "//me:hush@", 1)+"/a?key=hush")
	_, span := traces.Tracer().Start(context.Background(), "name")
	span.End()
	traces.Close(t.Context())
	if len(received) != 1 {
		t.Fatalf("no span came: %v", logged.All())
	}
	r, sent := <-received, <-body
	user, password, _ := r.BasicAuth()
	if r.RequestURI != "/a?key=hush" || user != "me" || password != "hush" || r.Header.Get("Content-Type") != "application/json" || !strings.Contains(sent, `"name":"name"`) {
		t.Errorf("got %s of %s with %v: %s", r.RequestURI, user, r.Header, sent)
	}
	for _, e := range logged.All() {
		if text, err := zapcore.NewJSONEncoder(zapcore.EncoderConfig{MessageKey: "m"}).EncodeEntry(e.Entry, e.Context); err != nil || strings.Contains(text.String(), "hush") {
			t.Errorf("the log shows the password: %v", text)
		}
	}
}
