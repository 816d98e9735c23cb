package telemetry

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// fakeRouter has the servers of these names.
type fakeRouter struct {
	names    []string
	registry *registry.Registry
	cluster  *fakeCluster // nil without one
}

func (r *fakeRouter) Servers() (all []status.Server) {
	for i, name := range r.names {
		all = append(all, status.Server{
			Status: status.Status{Name: name, State: status.Ready, Restarts: i, StrayLines: 3},
			Calls:  2, Waiting: 1, Tools: 1,
		})
	}
	return all
}

func (r *fakeRouter) Snapshot() *registry.Snapshot { return r.registry.Snapshot() }

func newFakeRouter(names ...string) *fakeRouter {
	return &fakeRouter{names: names, registry: registry.New()}
}

func tool(server, name string) *registry.NormalizedTool {
	return &registry.NormalizedTool{ID: registry.ID(server, name), Server: server, Name: name}
}

// scrape returns the page as text, in the format that is asked for.
func scrape(t *testing.T, h http.Handler, accept string) (text, kind string) {
	t.Helper()
	w := httptest.NewRecorder()
	q := httptest.NewRequest("GET", "/metrics", nil)
	q.Header.Set("Accept", accept)
	h.ServeHTTP(w, q)
	if w.Code != 200 {
		t.Fatalf("status %d: %s", w.Code, w.Body)
	}
	return w.Body.String(), w.Header().Get("Content-Type")
}

func parse(t *testing.T, text string) map[string]*dto.MetricFamily {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(text))
	expect.OK(t, err, "the page is not as Prometheus has it: %s", text)
	return families
}

// sample returns the sample of the series with these labels, in pairs; −1 without one.
func sample(families map[string]*dto.MetricFamily, name string, labels ...string) float64 {
	for _, m := range families[name].GetMetric() {
		has := 0
		for _, l := range m.GetLabel() {
			for i := 0; i < len(labels); i += 2 {
				if l.GetName() == labels[i] && l.GetValue() == labels[i+1] {
					has++
				}
			}
		}
		if 2*has < len(labels) {
			continue
		}
		switch {
		case m.Counter != nil:
			return m.Counter.GetValue()
		case m.Gauge != nil:
			return m.Gauge.GetValue()
		case m.Histogram != nil:
			return float64(m.Histogram.GetSampleCount())
		}
	}
	return -1
}

func TestMetrics(t *testing.T) {
	m := NewMetrics("1.2.3")
	r := newFakeRouter("s", `odd "name"`+"\n")
	h := m.Handler(r, zap.NewNop())
	m.CountDropped(openLog(t, config.AccessLog{}))
	search := tool("s", "search")
	m.Executed(selector.Execution{Tool: search, Answered: search, Outcome: execute.OK, Took: 3 * time.Millisecond, Attempts: 1, Arguments: []byte(`{}`), Result: []byte(`{"a":1}`)})
	m.Executed(selector.Execution{Tool: search, Answered: tool("t", "search"), Outcome: execute.ToolError, Took: time.Second, Attempts: 3, Cached: true})
	m.Executed(selector.Execution{Tool: search, Outcome: execute.NoAnswer})
	m.Executed(selector.Execution{Tool: tool("", "find_tools"), Outcome: execute.OK, Took: time.Millisecond, Attempts: 1})
	m.Executed(selector.Execution{Tool: tool(`odd "name"`+"\n", "b\\\xffd"), Outcome: execute.OK})
	m.Searched(selector.Search{Took: time.Millisecond})
	m.Searched(selector.Search{Abstained: true})
	m.Searched(selector.Search{Err: errors.New("broken")})
	m.ListSpared(100)
	m.ListSpared(-5)

	text, kind := scrape(t, h, "text/plain;version=0.0.4")
	if !strings.HasPrefix(kind, "text/plain") {
		t.Errorf("Content-Type %q", kind)
	}
	families := parse(t, text)
	for _, tt := range []struct {
		name   string
		labels []string
		want   float64
	}{
		{"metarouter_calls_total", []string{"server", "s", "tool", "search", "outcome", "ok"}, 1},
		{"metarouter_calls_total", []string{"server", "s", "tool", "search", "outcome", "tool_error"}, 1},
		{"metarouter_calls_total", []string{"server", "s", "tool", "search", "outcome", "no_answer"}, 1},
		{"metarouter_calls_total", []string{"server", "s", "tool", "search", "outcome", "cancelled"}, 0},
		{"metarouter_calls_total", []string{"server", "metarouter", "tool", "find_tools", "outcome", "ok"}, 1},
		{"metarouter_calls_total", []string{"server", `odd "name"` + "\n", "tool", "b\\\ufffdd", "outcome", "ok"}, 1},
		{"metarouter_call_duration_seconds", []string{"server", "s", "tool", "search"}, 3},
		{"metarouter_call_retries_total", []string{"server", "s"}, 2},
		{"metarouter_calls_failed_over_total", []string{"server", "s"}, 1},
		{"metarouter_calls_cached_total", []string{"server", "s"}, 1},
		{"metarouter_call_arguments_bytes_total", []string{"server", "s"}, 2},
		{"metarouter_call_results_bytes_total", []string{"server", "s"}, 7},
		{"metarouter_searches_total", []string{"abstained", "false"}, 1},
		{"metarouter_searches_total", []string{"abstained", "true"}, 1},
		{"metarouter_search_errors_total", nil, 1},
		{"metarouter_search_duration_seconds", nil, 3},
		{"metarouter_tokens_saved_total", []string{"by", "search_mode"}, 100},
		{"metarouter_tokens_saved_total", []string{"by", "result_limit"}, 0},
		{"metarouter_tokens_saved_total", []string{"by", "else"}, -1},
		{"metarouter_server_state", []string{"server", "s", "state", "ready"}, 1},
		{"metarouter_server_state", []string{"server", "s", "state", "failed"}, 0},
		{"metarouter_server_restarts_total", []string{"server", `odd "name"` + "\n"}, 1},
		{"metarouter_server_calls_in_flight", []string{"server", "s"}, 2},
		{"metarouter_server_calls_waiting", []string{"server", "s"}, 1},
		{"metarouter_server_stray_lines", []string{"server", "s"}, 3},
		{"metarouter_tools", nil, 0},
		{"metarouter_list_tokens", nil, 0},
		{"metarouter_build_info", []string{"version", "1.2.3"}, 1},
		{"metarouter_access_log_dropped_total", nil, 0},
	} {
		expect.Equal(t, sample(families, tt.name, tt.labels...), tt.want, "%s%q", tt.name, tt.labels)
	}
	for name := range families {
		if !strings.HasPrefix(name, "metarouter_") {
			t.Errorf("%s does not begin with metarouter_", name)
		}
	}
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("promlint says %v, %v", problems, err)
	}

	open, kind := scrape(t, h, "application/openmetrics-text;version=1.0.0")
	if !strings.HasPrefix(kind, "application/openmetrics-text") || !strings.HasSuffix(open, "# EOF\n") {
		t.Errorf("asked for OpenMetrics, got %q:\n%s", kind, open)
	}
}

// No catalog makes as many series as it likes, and no edit leaves any behind.
func TestMetricsAreBounded(t *testing.T) {
	m := NewMetrics("")
	long := strings.Repeat("n", 200) // names of servers that differ at their end
	r := newFakeRouter("a", "b", "c", "d", "e", "f", long+"1", long+"2")
	h := m.Handler(r, zap.NewNop())
	call := func(server, name string) {
		m.Executed(selector.Execution{Tool: tool(server, name), Outcome: execute.OK})
	}
	for i := range maxToolsOf + 500 {
		call("a", fmt.Sprint("tool", i))
	}
	call("a", strings.Repeat("long", 1000))
	call("b", strings.Repeat("long", 1000))
	call("b", "x")
	call(long+"1", "x")
	call(long+"2", "x")
	for _, server := range []string{"c", "d", "e"} {
		for i := range maxToolsOf {
			call(server, fmt.Sprint("tool", i))
		}
	}
	call("f", "x")
	text, _ := scrape(t, h, "")
	families := parse(t, text)
	if n := len(families["metarouter_call_duration_seconds"].GetMetric()); n > maxTools+6 {
		t.Errorf("%d series of tools, want at most %d", n, maxTools+6)
	}
	expect.Equal(t, sample(families, "metarouter_calls_total", "server", "a", "tool", "other", "outcome", "ok"), 501, "calls of other tools")
	for _, of := range [][2]string{{"b", "x"}, {"f", "other"}, {long + "1", "x"}, {long + "2", "x"}} {
		expect.Equal(t, sample(families, "metarouter_calls_total", "server", of[0], "tool", of[1], "outcome", "ok"), 1, "… calls of %s", of)
	}
	for _, m := range families["metarouter_calls_total"].GetMetric() {
		for _, l := range m.GetLabel() {
			if l.GetName() == "tool" && len(l.GetValue()) > maxValue {
				t.Errorf("a label has %d bytes", len(l.GetValue()))
			}
		}
	}

	for i := range 2 * maxTools {
		call(fmt.Sprint("removed", i), "x")
	}
	text, _ = scrape(t, h, "")
	expect.Equal(t, len(parse(t, text)["metarouter_call_retries_total"].GetMetric()), maxTools+1, "servers with series")
}

// Every metric that the dashboard asks for is there.
func TestDashboardKnowsTheMetrics(t *testing.T) {
	dashboard, err := os.ReadFile("../../../../contrib/grafana/metarouter.json")
	expect.OK(t, err)
	m := NewMetrics("")
	h := m.Handler(newFakeRouter("s"), zap.NewNop())
	m.CountDropped(openLog(t, config.AccessLog{}))
	m.Executed(selector.Execution{Tool: tool("s", "t"), Outcome: execute.OK})
	text, _ := scrape(t, h, "")
	families := parse(t, text)
	names := regexp.MustCompile(`metarouter_\w+`).FindAllString(string(dashboard), -1)
	slices.Sort(names)
	names = slices.Compact(names)
	if len(names) < 10 {
		t.Errorf("the dashboard asks for %q alone", names)
	}
	for _, name := range names {
		found := families[name] != nil
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if base, ok := strings.CutSuffix(name, suffix); ok && families[base].GetType() == dto.MetricType_HISTOGRAM {
				found = true
			}
		}
		if !found {
			t.Errorf("the dashboard asks for %s, which is not there", name)
		}
	}
}

// TestTracesAsJSON sends JSON to the endpoint. The log does not show its password.
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
	export(t, traces)
	if len(received) != 1 {
		t.Fatalf("no span came: %v", logged.All())
	}
	r, sent := <-received, <-body
	if r.RequestURI != "/a" || r.Header.Get("Content-Type") != "application/json" || !strings.Contains(sent, `"name":"x"`) {
		t.Errorf("got %s with %v: %s", r.RequestURI, r.Header, sent)
	}
	for _, e := range logged.All() {
		if text, err := zapcore.NewJSONEncoder(zapcore.EncoderConfig{MessageKey: "m"}).EncodeEntry(e.Entry, e.Context); err != nil || strings.Contains(text.String(), "hush") {
			t.Errorf("the log shows the password: %v", text)
		}
	}
}
