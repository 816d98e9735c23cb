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

// What a client does not want sampled is not, and the server is told so; what is no trace
// context harms nothing and goes nowhere.
func TestTracesOfOddContexts(t *testing.T) {
	layer.Full(t)
	c := collect(t)
	s := prepare(t, entries{"local": fake("-tools", "meta")}, map[string]any{"mode": "direct"})
	client := s.serve("--standalone")
	names(t, client)
	call := func(meta string) result {
		t.Helper()
		raw, err := client.Request(within(t), "tools/call", json.RawMessage(`{"name":"local__meta","arguments":{},"_meta":`+meta+`}`))
		if err != nil {
			t.Fatalf("%.100s: %v", meta, err)
		}
		return decode(t, raw)
	}
	unsampled, _ := parentOf(210)
	r := call(fmt.Sprintf(`{"traceparent":"00-%s-%s-00"}`, unsampled, clientSpan))
	told := regexp.MustCompile(`"traceparent":"00-` + unsampled + `-([0-9a-f]{16})-00"`).FindStringSubmatch(r.text())
	if told == nil || told[1] == clientSpan || r.Meta["trace_id"] != unsampled {
		t.Errorf("the server received %s in the trace %v", r.text(), r.Meta["trace_id"])
	}
	later, _ := parentOf(211)
	r = call(fmt.Sprintf(`{"traceparent":"01-%s-%s-03-more"}`, later, clientSpan))
	if !regexp.MustCompile(`"traceparent":"00-`+later+`-[0-9a-f]{16}-03"`).MatchString(r.text()) || r.Meta["trace_id"] != later {
		t.Errorf("the server received %s in the trace %v", r.text(), r.Meta["trace_id"])
	}
	twice, _ := parentOf(212)
	r = call(fmt.Sprintf(`{"a":1,"traceparent":"00-evil-evil-01","b":{"c":[2.50]},"traceparent":"00-%s-%s-01","tracestate":7}`, twice, clientSpan))
	if strings.Contains(r.text(), "evil") || !strings.Contains(r.text(), twice) || !strings.Contains(r.text(), `{"c":[2.50]}`) || strings.Contains(r.text(), "tracestate") {
		t.Errorf("the server received %s", r.text())
	}
	zero, upper := strings.Repeat("0", 32), strings.ToUpper(twice)
	for _, meta := range []string{
		`{"traceparent":5}`, `{"traceparent":null}`, `{"traceparent":{"a":[]}}`, `{"traceparent":""}`, `{"traceparent":"` + strings.Repeat("0", 1<<20) + `"}`,
		fmt.Sprintf(`{"traceparent":"00-%s-%s-01"}`, zero, clientSpan), fmt.Sprintf(`{"traceparent":"00-%s-%s-01"}`, upper, clientSpan),
		fmt.Sprintf(`{"traceparent":"ff-%s-%s-01"}`, twice, clientSpan), fmt.Sprintf(`{"traceparent":"00-%s-%s-01-more"}`, twice, clientSpan),
		`{}`,
	} {
		r := call(meta)
		trace, _ := r.Meta["trace_id"].(string)
		if len(trace) != 32 || trace == zero || trace == twice || !strings.Contains(r.text(), `"traceparent":"00-`+trace) || strings.Count(r.text(), "traceparent") != 1 {
			t.Errorf("%.100s: the server received %.200s in the trace %s", meta, r.text(), trace)
		}
		c.span(t, trace, "tools/call local:meta", asServer)
	}
	for _, meta := range []string{`5`, `[]`, `"x"`, `null`} { // refused, or answered: not a crash
		client.Request(within(t), "tools/call", json.RawMessage(`{"name":"local__meta","_meta":`+meta+`}`))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.spans {
		if hex.EncodeToString(s.TraceId) == unsampled {
			t.Errorf("a span was sent that was not to be sampled: %v", s)
		}
	}
}

// Our own tools have spans too, above those of what they call.
func TestTracesOfOwnTools(t *testing.T) {
	layer.Full(t)
	c := collect(t)
	s := prepare(t, entries{"local": fake("-tools", "meta")}, map[string]any{"mode": "search"})
	client := s.serve() // shared: what serves is a process of its own
	trace, parent := parentOf(200)
	call := func(tool, arguments string) result {
		return decode(t, must(client.Request(within(t), "tools/call", json.RawMessage(
			fmt.Sprintf(`{"name":%q,"arguments":%s,"_meta":{"traceparent":%q}}`, tool, arguments, parent)))))
	}
	if r := call("find_tools", `{"query":"meta"}`); r.Meta["trace_id"] != trace {
		t.Errorf("trace_id %v, want %s", r.Meta["trace_id"], trace)
	}
	c.span(t, trace, "tools/call find_tools", asServer)
	if r := call("call_tool", `{"tool":"local:meta","arguments":{}}`); r.Meta["trace_id"] != trace {
		t.Errorf("trace_id %v, want %s", r.Meta["trace_id"], trace)
	}
	outer, middle, inner := c.span(t, trace, "tools/call call_tool", asServer), c.span(t, trace, "tools/call local:meta", inside), c.span(t, trace, "tools/call meta", asClient)
	if string(middle.ParentSpanId) != string(outer.SpanId) || string(inner.ParentSpanId) != string(middle.SpanId) {
		t.Errorf("the spans are not below one another: %v, %v, %v", outer, middle, inner)
	}
	if r := decode(t, must(client.Request(within(t), "tools/call", json.RawMessage(`{"name":"find_tools","arguments":{"query":"meta"}}`)))); r.Meta["trace_id"] != nil {
		c.span(t, r.Meta["trace_id"].(string), "tools/call find_tools", asServer)
	}
	// A command that runs alone sends what it has before it ends.
	out, _, _ := s.run("call", "local:meta", "--standalone", "--json")
	if alone := decode(t, json.RawMessage(out)); alone.Meta["trace_id"] != nil {
		c.span(t, alone.Meta["trace_id"].(string), "tools/call local:meta", asServer)
	}
	if err := client.Close(); err != nil { // which waits for the shared router
		t.Errorf("%v\n%s", err, client.Stderr())
	}
}

// Without tracing, the client's own trace context is passed on as it is.
func TestTraceContextPassesUntraced(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	remote, _ := mcptest.Remote(t, "http", "-tools", "meta,headers")
	s := prepare(t, entries{"local": fake("-tools", "meta"), "remote": {"type": "http", "url": remote}}, map[string]any{"mode": "direct"})
	address, _ := s.serveHTTP("--standalone")
	trace, parent := parentOf(1)
	header := http.Header{"Traceparent": {parent}, "Tracestate": {"a=1"}}
	for _, tool := range []string{"local__meta", "remote__meta"} {
		r := decode(t, must(plainCall(t, address, tool, header)))
		if want := fmt.Sprintf(`"traceparent":%q,"tracestate":"a=1"`, parent); !strings.Contains(r.text(), want) || r.Meta["trace_id"] != trace {
			t.Errorf("%s received %s in the trace %v, want %s", tool, r.text(), r.Meta["trace_id"], want)
		}
	}
	if r := decode(t, must(plainCall(t, address, "remote__headers", header))); !strings.Contains(r.text(), "Traceparent: "+parent) || !strings.Contains(r.text(), "Tracestate: a=1") {
		t.Errorf("the headers are %s", r.text())
	}
	bad := http.Header{"Traceparent": {"00-no"}, "Tracestate": {"a=1"}}
	if r := decode(t, must(plainCall(t, address, "remote__headers", bad))); strings.Contains(r.text(), "Trace") {
		t.Errorf("the headers are %s", r.text())
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
