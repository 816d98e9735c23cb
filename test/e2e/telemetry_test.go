//go:build unix

package e2e

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// A collector takes spans over OTLP.
type collector struct {
	mu    sync.Mutex // guards spans
	spans []*tracepb.Span
}

// collect has the programs that the test starts send their spans to a collector.
func collect(t *testing.T) *collector {
	c := &collector{}
	s := httptest.NewServer(c)
	t.Cleanup(s.Close)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", s.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "50")
	return c
}

func (c *collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	var sent tracepb.TracesData // which has the fields of an ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(raw, &sent)
	}
	if err != nil || r.URL.Path != "/v1/traces" {
		http.Error(w, fmt.Sprint(r.URL, err), http.StatusBadRequest)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, of := range sent.ResourceSpans {
		for _, by := range of.ScopeSpans {
			c.spans = append(c.spans, by.Spans...)
		}
	}
}

// span waits for a span of the trace, and returns it.
func (c *collector) span(t *testing.T, trace, name string, kind tracepb.Span_SpanKind) (found *tracepb.Span) {
	t.Helper()
	mcptest.WaitFor(t, kind.String()+" "+name, func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, s := range c.spans {
			if hex.EncodeToString(s.TraceId) == trace && s.Name == name && s.Kind == kind {
				found = s
			}
		}
		return found != nil
	})
	return found
}

const (
	asServer = tracepb.Span_SPAN_KIND_SERVER
	asClient = tracepb.Span_SPAN_KIND_CLIENT
	inside   = tracepb.Span_SPAN_KIND_INTERNAL
)

// attribute returns a text of a span, "" if it has none.
func attribute(s *tracepb.Span, key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.GetStringValue()
		}
	}
	return ""
}

const clientSpan = "00f067aa0ba902b7"

// parentOf returns a client's traceparent, each of a trace of its own.
func parentOf(n int) (trace, parent string) {
	trace = fmt.Sprintf("4bf92f3577b34da6a3ce929d0e0e47%02x", n)
	return trace, "00-" + trace + "-" + clientSpan + "-01"
}

// A trace goes from the client through the router to the server, whatever lies between
// them, and what servers are told is the router's own span.
func TestTraces(t *testing.T) {
	c := collect(t)
	remote, _ := mcptest.Remote(t, "http", "-tools", "meta,headers")
	modern, _ := mcptest.Remote(t, "http", "-tools", "meta,headers", "-era", "modern")
	old, _ := mcptest.Remote(t, "sse", "-tools", "meta,headers")
	s := prepare(t, entries{
		"local": fake("-tools", "meta,fail,error"), "remote": {"type": "http", "url": remote}, "modern": {"type": "http", "url": modern}, "old": {"type": "sse", "url": old},
	}, map[string]any{"mode": "direct"})

	pipe := s.serve("--standalone")
	names(t, pipe)
	address, _ := s.serveHTTP("--standalone", "--data", t.TempDir())
	web := mcptest.NewHTTPClient(t, address)
	if _, err := web.Initialize(within(t)); err != nil {
		t.Fatal(err)
	}
	if _, err := web.Request(within(t), "tools/list", nil); err != nil {
		t.Fatal(err)
	}
	params := func(tool, meta string) json.RawMessage {
		return json.RawMessage(fmt.Sprintf(`{"name":%q,"arguments":{},"_meta":%s}`, tool, meta))
	}
	n := 0
	for _, from := range []struct {
		name string
		ask  func(tool, parent string) (json.RawMessage, error)
	}{
		{"_meta over stdio", func(tool, parent string) (json.RawMessage, error) {
			return pipe.Request(within(t), "tools/call", params(tool, fmt.Sprintf(`{"traceparent":%q,"tracestate":"a=1","baggage":"b=2","own":3}`, parent)))
		}},
		{"_meta over HTTP", func(tool, parent string) (json.RawMessage, error) {
			web.Header = http.Header{"Traceparent": {"00-11111111111111111111111111111111-2222222222222222-01"}} // of the hop, which counts less
			return web.Request(within(t), "tools/call", params(tool, fmt.Sprintf(`{"traceparent":%q,"tracestate":"a=1","baggage":"b=2"}`, parent)))
		}},
		{"HTTP headers", func(tool, parent string) (json.RawMessage, error) {
			web.Header = http.Header{"Traceparent": {parent}, "Tracestate": {"a=1"}, "Baggage": {"b=2"}}
			return web.Call(within(t), tool, nil)
		}},
		{"headers of plain JSON-RPC", func(tool, parent string) (json.RawMessage, error) {
			return plainCall(t, address, tool, http.Header{"Traceparent": {parent}, "Tracestate": {"a=1"}, "Baggage": {"b=2"}})
		}},
	} {
		for _, server := range []string{"local", "remote", "modern", "old"} {
			n++
			trace, parent := parentOf(n)
			raw, err := from.ask(server+"__meta", parent)
			if err != nil {
				t.Fatalf("%s, %s: %v\n%s", from.name, server, err, pipe.Stderr())
			}
			r := decode(t, raw)
			if r.Meta["trace_id"] != trace {
				t.Errorf("%s, %s: trace_id %v, want %s", from.name, server, r.Meta["trace_id"], trace)
			}
			router, call := c.span(t, trace, "tools/call "+server+":meta", asServer), c.span(t, trace, "tools/call meta", asClient)
			if got := hex.EncodeToString(router.ParentSpanId); got != clientSpan {
				t.Errorf("%s, %s: the router's span is below %s, want %s", from.name, server, got, clientSpan)
			}
			if string(call.ParentSpanId) != string(router.SpanId) {
				t.Errorf("%s, %s: the server's span is not below the router's", from.name, server)
			}
			var told struct{ Traceparent, Tracestate, Baggage string }
			json.Unmarshal([]byte(r.text()), &told)
			want := "00-" + trace + "-" + hex.EncodeToString(call.SpanId) + "-01"
			if told.Traceparent != want || told.Tracestate != "a=1" || told.Baggage != "b=2" {
				t.Errorf("%s, %s: the server received %s, want %s", from.name, server, r.text(), want)
			}
			for key, want := range map[string]string{
				"mcp.method.name": "tools/call", "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": server + ":meta",
				"metarouter.server": server, "metarouter.outcome": "ok", "error.type": "",
			} {
				if got := attribute(router, key); got != want {
					t.Errorf("%s, %s: %s is %q, want %q", from.name, server, key, got, want)
				}
			}
		}
	}

	// Requests over HTTP have the same values in headers.
	for _, server := range []string{"remote", "modern", "old"} {
		n++
		trace, parent := parentOf(n)
		raw, err := pipe.Request(within(t), "tools/call", params(server+"__headers", fmt.Sprintf(`{"traceparent":%q}`, parent)))
		if err != nil {
			t.Fatal(err)
		}
		call := c.span(t, trace, "tools/call headers", asClient)
		if want := "Traceparent: 00-" + trace + "-" + hex.EncodeToString(call.SpanId) + "-01"; !strings.Contains(decode(t, raw).text(), want) {
			t.Errorf("%s: the headers are %s, want %s", server, decode(t, raw).text(), want)
		}
	}

	// What goes wrong is in the spans, by its kind.
	for tool, want := range map[string][2]string{"fail": {"tool_error", "tool_error"}, "error": {"-31999", "-31999"}} {
		n++
		trace, parent := parentOf(n)
		pipe.Request(within(t), "tools/call", params("local__"+tool, fmt.Sprintf(`{"traceparent":%q}`, parent)))
		router, call := c.span(t, trace, "tools/call local:"+tool, asServer), c.span(t, trace, "tools/call "+tool, asClient)
		if got := [2]string{attribute(router, "error.type"), attribute(call, "error.type")}; got != want || router.Status.Code != tracepb.Status_STATUS_CODE_ERROR {
			t.Errorf("%s: error.type is %q and the status %v, want %q", tool, got, router.Status, want)
		}
	}

	// A trace that is none is not gone on with.
	r := decode(t, must(pipe.Request(within(t), "tools/call", params("local__meta", `{"traceparent":"00-xyz","tracestate":"a=1"}`))))
	trace, _ := r.Meta["trace_id"].(string)
	if router := c.span(t, trace, "tools/call local:meta", asServer); len(router.ParentSpanId) > 0 || strings.Contains(r.text(), "xyz") || strings.Contains(r.text(), "a=1") {
		t.Errorf("the server received %s, and the span is below %x", r.text(), router.ParentSpanId)
	}
	if err := pipe.Close(); err != nil {
		t.Error(err)
	}
}

func must(raw json.RawMessage, err error) json.RawMessage {
	if err != nil {
		return json.RawMessage(fmt.Sprintf(`{"isError":true,"content":[{"type":"text","text":%q}]}`, err))
	}
	return raw
}

// plainCall calls a tool in plain JSON-RPC with these headers.
func plainCall(t *testing.T, address, tool string, header http.Header) (json.RawMessage, error) {
	t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":{}}}`, tool)
	r, err := http.NewRequestWithContext(within(t), http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	maps.Copy(r.Header, header)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var answer struct{ Result, Error json.RawMessage }
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return nil, err
	}
	if answer.Error != nil {
		return nil, fmt.Errorf("%s", answer.Error)
	}
	return answer.Result, nil
}

// get returns a page of the router.
func get(t *testing.T, url string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(within(t), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s %v %s", url, resp.Status, err, body)
	}
	return string(body)
}

// Prometheus itself takes what a router in use shows, and what the dashboard asks for is
// PromQL. It must be on PATH, as .ci/run has it.
func TestPrometheus(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	for _, program := range []string{"prometheus", "promtool"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("not on PATH:", program)
		}
	}
	s := prepare(t, entries{"s": fake("-tools", "echo,fail")}, map[string]any{"mode": "search", "accessLog": "access.log"})
	address, _ := s.serveHTTP("--standalone")
	page := strings.TrimSuffix(address, "/mcp") + "/metrics"
	for _, tool := range []string{"s:echo", "s:echo", "s:fail"} {
		plainCall(t, address, tool, nil)
	}
	check := exec.CommandContext(within(t), "promtool", "check", "metrics")
	check.Stdin = strings.NewReader(get(t, page))
	if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool: %v\n%s", err, out)
	}

	at := mcptest.FreeAddress(t)
	target, _ := url.Parse(page)
	scrape := fmt.Sprintf(`{"global":{"scrape_interval":"1s"},"scrape_configs":[{"job_name":"metarouter","static_configs":[{"targets":[%q]}]}]}`, target.Host)
	if err := writeFile(filepath.Join(s.dir, "prometheus.json"), scrape); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	prometheus := exec.CommandContext(ctx, "prometheus", "--config.file", filepath.Join(s.dir, "prometheus.json"),
		"--storage.tsdb.path", filepath.Join(s.dir, "tsdb"), "--web.listen-address", at)
	if err := prometheus.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stop(); prometheus.Wait() })
	query := func(expression string) (status string, results int, says string) {
		r, err := http.Get("http://" + at + "/api/v1/query?query=" + url.QueryEscape(expression))
		if err != nil {
			return err.Error(), 0, ""
		}
		defer r.Body.Close()
		var answer struct {
			Status, Error string
			Data          struct{ Result []json.RawMessage }
		}
		json.NewDecoder(r.Body).Decode(&answer)
		return answer.Status, len(answer.Data.Result), answer.Error
	}
	mcptest.WaitFor(t, "Prometheus to have asked the router", func() bool {
		_, results, _ := query(`metarouter_calls_total{server="s",tool="echo",outcome="ok"} == 2 and on() up == 1`)
		return results == 1
	})
	dashboard, err := os.ReadFile("../../contrib/grafana/metarouter.json")
	if err != nil {
		t.Fatal(err)
	}
	variables := strings.NewReplacer("$__rate_interval", "10s", "$__range", "1h", "$job", ".*", "$instance", ".*", "$server", ".*")
	asked := 0
	for _, found := range regexp.MustCompile(`"expr": ("(?:[^"\\]|\\.)*")`).FindAllSubmatch(dashboard, -1) {
		var expression string
		if err := json.Unmarshal(found[1], &expression); err != nil {
			t.Fatal(err)
		}
		asked++
		if status, _, says := query(variables.Replace(expression)); status != "success" {
			t.Errorf("%s\n%s: %s", expression, status, says)
		}
	}
	if asked < 20 {
		t.Errorf("the dashboard asks %d questions alone", asked)
	}
}
