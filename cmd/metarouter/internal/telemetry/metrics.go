// Package telemetry exports the work of the router: metrics for Prometheus ([Metrics]), spans
// for an OpenTelemetry collector ([Traces]), and a file with a line for each call
// ([AccessLog]).
//
// Metrics and AccessLog get the events of a [github.com/mcp-metarouter/metarouter/selector.Observer].
// No call waits for any of them.
// Only the access log has arguments and results, if the configuration asks for them, and
// it masks everything that looks like a secret.
package telemetry

import (
	"cmp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

const (
	// maxTools bounds the tools with their own series, and maxToolsOf the tools of one server.
	// Calls of further tools are counted for the tool "other" of their server. So no
	// catalog can create series without a bound, or use up the series of other servers. A removed
	// server keeps its series; servers beyond maxTools are counted as the server "other".
	maxTools   = 1000
	maxToolsOf = 250
	other      = "other"

	// ownServer is the server of the router's own tools.
	ownServer = "metarouter"
)

// latencies are the bounds of the buckets, in seconds: a call takes from less than a
// millisecond to five minutes.
var latencies = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}

// Metrics counts calls, searches and tokens. It is an observer of a selector, and gets from the
// server the tokens that clients save. [Metrics.Handler] serves the counters.
type Metrics struct {
	registry *prometheus.Registry

	calls      *prometheus.CounterVec   // by server, tool, outcome
	durations  *prometheus.HistogramVec // by server, tool
	retries    *prometheus.CounterVec   // by server
	standIns   *prometheus.CounterVec   // by server
	cached     *prometheus.CounterVec   // by server
	bytesIn    *prometheus.CounterVec   // by server
	bytesOut   *prometheus.CounterVec   // by server
	searches   map[bool]prometheus.Counter
	failed     prometheus.Counter
	searchTime prometheus.Histogram
	savedBy    struct{ search, limit prometheus.Counter } // tokens, by search mode and by limits of results

	mu    sync.Mutex                        // guards the fields below
	tools map[string]map[string]*toolSeries // by server and tool
	count int                               // of tools
}

// NewMetrics returns metrics of a router of this version.
func NewMetrics(version string) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(), searches: make(map[bool]prometheus.Counter),
		tools: make(map[string]map[string]*toolSeries),
	}
	prefixed := prometheus.WrapRegistererWithPrefix("metarouter_", m.registry)
	with := promauto.With(prefixed)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return with.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	m.calls = counter("calls_total", "Finished tool calls, by outcome.", "server", "tool", "outcome")
	m.durations = with.NewHistogramVec(prometheus.HistogramOpts{
		Name: "call_duration_seconds", Help: "How long calls of tools took, all attempts and waits included.", Buckets: latencies,
	}, []string{"server", "tool"})
	m.retries = counter("call_retries_total", "Attempts at calls beyond the first of each.", "server")
	m.standIns = counter("calls_failed_over_total", "Calls that a tool of another server answered.", "server")
	m.cached = counter("calls_cached_total", "Calls answered from the cache.", "server")
	m.bytesIn = counter("call_arguments_bytes_total", "Bytes of the arguments of calls.", "server")
	m.bytesOut = counter("call_results_bytes_total", "Bytes of the results of calls.", "server")

	searches := counter("searches_total", "Searches for tools; abstained is true if no tool fitted.", "abstained")
	for _, abstained := range []bool{false, true} {
		m.searches[abstained] = searches.WithLabelValues(strconv.FormatBool(abstained))
	}
	m.failed = counter("search_errors_total", "Searches that failed.").WithLabelValues()
	m.searchTime = with.NewHistogram(prometheus.HistogramOpts{
		Name: "search_duration_seconds", Help: "How long searches for tools took.", Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5},
	})
	saved := counter("tokens_saved_total", "Tokens that models did not have to read, estimated as 4 bytes each.", "by")
	m.savedBy.search, m.savedBy.limit = saved.WithLabelValues("search_mode"), saved.WithLabelValues("result_limit")

	with.NewGaugeVec(prometheus.GaugeOpts{Name: "build_info", Help: "1, labelled with the version of the router and of Go."},
		[]string{"version", "goversion"}).WithLabelValues(version, runtime.Version()).Set(1)
	prefixed.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// CountDropped counts the lines that the access log has dropped.
func (m *Metrics) CountDropped(l *AccessLog) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "metarouter_access_log_dropped_total", Help: "Lines that were not written to the access log.",
	}, func() float64 { return float64(l.Dropped()) }))
}

// A toolSeries has the counters of one tool, and of its server.
type toolSeries struct {
	calls                                        map[execute.Outcome]prometheus.Counter
	duration                                     prometheus.Observer
	retries, standIns, cached, bytesIn, bytesOut prometheus.Counter
}

// Executed implements [selector.Observer].
func (m *Metrics) Executed(e selector.Execution) {
	s := m.of(e.Tool)
	s.calls[e.Outcome].Inc()
	s.duration.Observe(e.Took.Seconds())
	s.retries.Add(float64(max(0, e.Attempts-1)))
	s.bytesIn.Add(float64(len(e.Arguments)))
	s.bytesOut.Add(float64(len(e.Result)))
	if e.Answered != nil && e.Answered.Server != e.Tool.Server {
		s.standIns.Inc()
	}
	if e.Cached {
		s.cached.Inc()
	}
}

// Searched implements [selector.Observer].
func (m *Metrics) Searched(s selector.Search) {
	m.searchTime.Observe(s.Took.Seconds())
	if s.Err != nil {
		m.failed.Inc()
		return
	}
	m.searches[s.Abstained].Inc()
}

// ListSpared counts tokens that search mode has saved.
func (m *Metrics) ListSpared(tokens int) { m.savedBy.search.Add(float64(max(tokens, 0))) }

// ResultSpared counts tokens that a limit of results has saved.
func (m *Metrics) ResultSpared(tokens int) { m.savedBy.limit.Add(float64(max(tokens, 0))) }

// of returns the series of a tool, or of the others of its server. They begin with 0 calls.
func (m *Metrics) of(t *registry.NormalizedTool) *toolSeries {
	m.mu.Lock()
	defer m.mu.Unlock()
	of, name := cmp.Or(t.Server, ownServer), cmp.Or(t.Name, other)
	if m.tools[of] == nil && len(m.tools) >= maxTools {
		of = other
	}
	known := m.tools[of]
	if (m.count >= maxTools || len(known) >= maxToolsOf) && known[name] == nil {
		name = other
	}
	if s := known[name]; s != nil {
		return s
	}
	if known == nil {
		known = make(map[string]*toolSeries)
		m.tools[of] = known
	}
	server, tool := valid(of), valid(name[:min(len(name), maxValue)])
	s := &toolSeries{
		calls: make(map[execute.Outcome]prometheus.Counter), duration: m.durations.WithLabelValues(server, tool),
		retries: m.retries.WithLabelValues(server), standIns: m.standIns.WithLabelValues(server), cached: m.cached.WithLabelValues(server),
		bytesIn: m.bytesIn.WithLabelValues(server), bytesOut: m.bytesOut.WithLabelValues(server),
	}
	for _, outcome := range execute.Outcomes {
		s.calls[outcome] = m.calls.WithLabelValues(server, tool, string(outcome))
	}
	known[name] = s
	m.count++
	return s
}

// maxValue bounds the value of a label, in bytes.
const maxValue = 128

// valid returns a text as labels and spans take it, with invalid UTF-8 replaced.
func valid(text string) string { return strings.ToValidUTF8(text, string(utf8.RuneError)) }
