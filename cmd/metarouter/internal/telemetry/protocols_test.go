package telemetry

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/zap/zapcore"
)

// TestTracesAsJSON sends JSON to the whole endpoint: with its query, user and password,
// which the log does not show.
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
