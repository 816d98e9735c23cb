//go:build unix

package e2e

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
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

	"github.com/mcp-metarouter/metarouter/test/expect"
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
)

// A trace goes from the client through the router to the server, whatever lies between
// them, and what servers are told is the router's own span.
func TestTraces(t *testing.T) {
	const clientSpan = "00f067aa0ba902b7"
	c := collect(t)
	remote, _ := mcptest.Remote(t, "http", "-tools", "meta,headers")
	modern, _ := mcptest.Remote(t, "http", "-tools", "meta,headers", "-era", "modern")
	s := prepare(t, entries{
		"local": fake("-tools", "meta,fail"), "remote": {"type": "http", "url": remote}, "modern": {"type": "http", "url": modern},
	}, map[string]any{"mode": "direct", "listWait": "60s"})
	pipe := s.serve("--standalone")
	names(t, pipe)
	address, _ := s.serveHTTP("--standalone", "--data", t.TempDir())

	for i, server := range []string{"local", "remote", "modern"} {
		for way, ask := range []func(tool, parent string) (json.RawMessage, error){
			func(tool, parent string) (json.RawMessage, error) {
				return pipe.Request(within(t), "tools/call", json.RawMessage(fmt.Sprintf(`{"name":%q,"arguments":{},"_meta":{"traceparent":%q,"tracestate":"a=1","baggage":"b=2"}}`, tool, parent)))
			},
			func(tool, parent string) (json.RawMessage, error) {
				return plainCall(t, address, tool, http.Header{"Traceparent": {parent}, "Tracestate": {"a=1"}, "Baggage": {"b=2"}})
			},
		} {
			trace := fmt.Sprintf("4bf92f3577b34da6a3ce929d0e0e47%02x", 2*i+way+1)
			raw, err := ask(server+"__meta", "00-"+trace+"-"+clientSpan+"-01")
			expect.OK(t, err, "%s: %s", server, pipe.Stderr())
			r := decode(t, raw)
			router, call := c.span(t, trace, "tools/call "+server+":meta", asServer), c.span(t, trace, "tools/call meta", asClient)
			if got := hex.EncodeToString(router.ParentSpanId); r.Meta["trace_id"] != trace || got != clientSpan || string(call.ParentSpanId) != string(router.SpanId) {
				t.Errorf("%s: trace_id %v, want %s; the router's span is below %s, and the server's below %x", server, r.Meta["trace_id"], trace, got, call.ParentSpanId)
			}
			var told struct{ Traceparent, Tracestate, Baggage string }
			json.Unmarshal([]byte(r.text()), &told)
			want := "00-" + trace + "-" + hex.EncodeToString(call.SpanId) + "-01"
			if told.Traceparent != want || told.Tracestate != "a=1" || told.Baggage != "b=2" {
				t.Errorf("%s: the server received %s, want %s", server, r.text(), want)
			}
			if server == "local" {
				continue
			}
			headers, err := ask(server+"__headers", "00-"+trace+"-"+clientSpan+"-01")
			if call = c.span(t, trace, "tools/call headers", asClient); err != nil || !strings.Contains(string(headers), "Traceparent: 00-"+trace+"-"+hex.EncodeToString(call.SpanId)) {
				t.Errorf("%s: the headers are %s, %v", server, headers, err)
			}
		}
	}

	// What goes wrong is in the spans.
	trace := "4bf92f3577b34da6a3ce929d0e0e47ff"
	pipe.Request(within(t), "tools/call", json.RawMessage(`{"name":"local__fail","arguments":{},"_meta":{"traceparent":"00-`+trace+`-`+clientSpan+`-01"}}`))
	if router := c.span(t, trace, "tools/call local:fail", asServer); router.Status.Code != tracepb.Status_STATUS_CODE_ERROR {
		t.Errorf("the status is %v", router.Status)
	}
	expect.OK(t, pipe.Close())
}

// plainCall calls a tool in plain JSON-RPC with these headers.
func plainCall(t *testing.T, address, tool string, header http.Header) (json.RawMessage, error) {
	t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":%q,"arguments":{}}}`, tool)
	r, err := http.NewRequestWithContext(within(t), http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header = header
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var answer struct{ Result, Error json.RawMessage }
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil || answer.Error != nil {
		return nil, fmt.Errorf("%s, %w", answer.Error, err)
	}
	return answer.Result, nil
}

// get returns a page of the router.
func get(t *testing.T, url string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(within(t), http.MethodGet, url, nil)
	expect.OK(t, err)
	resp, err := http.DefaultClient.Do(r)
	expect.OK(t, err)
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
		plainCall(t, address, tool, http.Header{})
	}
	check := exec.CommandContext(within(t), "promtool", "check", "metrics")
	check.Stdin = strings.NewReader(get(t, page))
	if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool: %v\n%s", err, out)
	}

	at := mcptest.FreeAddress(t)
	target, _ := url.Parse(page)
	scrape := fmt.Sprintf(`{"global":{"scrape_interval":"1s"},"scrape_configs":[{"job_name":"metarouter","static_configs":[{"targets":[%q]}]}]}`, target.Host)
	expect.OK(t, writeFile(filepath.Join(s.dir, "prometheus.json"), scrape))
	ctx, stop := context.WithCancel(t.Context())
	prometheus := exec.CommandContext(ctx, "prometheus", "--config.file", filepath.Join(s.dir, "prometheus.json"),
		"--storage.tsdb.path", filepath.Join(s.dir, "tsdb"), "--web.listen-address", at)
	expect.OK(t, prometheus.Start())
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
	expect.OK(t, err)
	variables := strings.NewReplacer("$__rate_interval", "10s", "$__range", "1h", "$job", ".*", "$instance", ".*", "$server", ".*")
	asked := 0
	for _, found := range regexp.MustCompile(`"expr": ("(?:[^"\\]|\\.)*")`).FindAllSubmatch(dashboard, -1) {
		var expression string
		expect.OK(t, json.Unmarshal(found[1], &expression))
		asked++
		if status, _, says := query(variables.Replace(expression)); status != "success" {
			t.Errorf("%s\n%s: %s", expression, status, says)
		}
	}
	if asked < 20 {
		t.Errorf("the dashboard asks %d questions alone", asked)
	}
}
