package telemetry

import (
	"cmp"
	"maps"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

const (
	// maxTools bounds the tools with their own series, and maxToolsOf the tools of one server.
	// Calls of further tools are counted for the tool "other" of their server. So no
	// catalog can create series without a bound, or use up the series of other servers.
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
	callers    *callers
	searches   map[bool]prometheus.Counter
	failed     prometheus.Counter
	searchTime prometheus.Histogram
	savedBy    struct{ search, limit prometheus.Counter } // tokens, by search mode and by limits of results

	known atomic.Pointer[map[label]*toolSeries] // replaced, not edited
	mu    sync.Mutex                            // held while known is replaced; guards tools
	tools map[string]int                        // number of known tools, by server
}

// A label names a tool, or the others of a server.
type label struct{ server, tool string }

// toolSeries are the counters of a tool. They are kept so that counting a call allocates
// nothing.
type toolSeries struct {
	outcomes []prometheus.Counter // as in execute.Outcomes
	duration prometheus.Observer
	server   *serverSeries
}

type serverSeries struct {
	retries, standIns, cached, bytesIn, bytesOut prometheus.Counter
}

// NewMetrics returns metrics of a router of this version.
func NewMetrics(version string) *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(), searches: make(map[bool]prometheus.Counter),
		tools: make(map[string]int),
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "metarouter_" + name, Help: help}, labels)
		m.registry.MustRegister(v)
		return v
	}
	histogram := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		v := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "metarouter_" + name, Help: help, Buckets: buckets}, labels)
		m.registry.MustRegister(v)
		return v
	}
	m.calls = counter("calls_total", "Finished tool calls, by outcome.", "server", "tool", "outcome")
	m.durations = histogram("call_duration_seconds", "How long calls of tools took, all attempts and waits included.", latencies, "server", "tool")
	m.retries = counter("call_retries_total", "Attempts at calls beyond the first of each.", "server")
	m.standIns = counter("calls_failed_over_total", "Calls that a tool of another server answered.", "server")
	m.cached = counter("calls_cached_total", "Calls answered from the cache.", "server")
	m.bytesIn = counter("call_arguments_bytes_total", "Bytes of the arguments of calls.", "server")
	m.bytesOut = counter("call_results_bytes_total", "Bytes of the results of calls.", "server")

	m.callers = newCallers(counter)

	searches := counter("searches_total", "Searches for tools; abstained is true if no tool fitted.", "abstained")
	for _, abstained := range []bool{false, true} {
		m.searches[abstained] = searches.WithLabelValues(strconv.FormatBool(abstained))
	}
	m.failed = counter("search_errors_total", "Searches that failed.").WithLabelValues()
	m.searchTime = histogram("search_duration_seconds", "How long searches for tools took.",
		[]float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5}).WithLabelValues().(prometheus.Histogram)
	saved := counter("tokens_saved_total", "Tokens that models did not have to read, estimated as 4 bytes each.", "by")
	m.savedBy.search, m.savedBy.limit = saved.WithLabelValues("search_mode"), saved.WithLabelValues("result_limit")

	info := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "metarouter_build_info", Help: "1, labelled with the version of the router and of Go."}, []string{"version", "goversion"})
	info.WithLabelValues(version, runtime.Version()).Set(1)
	m.registry.MustRegister(info)
	ours := prometheus.WrapRegistererWithPrefix("metarouter_", m.registry)
	ours.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.known.Store(&map[label]*toolSeries{})
	return m
}

// CountDropped counts the lines that the access log has dropped.
func (m *Metrics) CountDropped(l *AccessLog) {
	m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "metarouter_access_log_dropped_total", Help: "Lines that were not written to the access log.",
	}, func() float64 { return float64(l.Dropped()) }))
}

// Executed implements [selector.Observer].
func (m *Metrics) Executed(e selector.Execution) {
	m.callers.count(e)
	s := m.of(e.Tool)
	for i, outcome := range execute.Outcomes {
		if outcome == e.Outcome {
			s.outcomes[i].Inc()
		}
	}
	s.duration.Observe(e.Took.Seconds())
	add := func(to prometheus.Counter, n int) {
		if n > 0 {
			to.Add(float64(n))
		}
	}
	add(s.server.retries, e.Attempts-1)
	add(s.server.bytesIn, len(e.Arguments))
	add(s.server.bytesOut, len(e.Result))
	if e.Answered != nil && e.Answered.Server != e.Tool.Server {
		s.server.standIns.Inc()
	}
	if e.Cached {
		s.server.cached.Inc()
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

// Listed counts a list of tools that a client got.
func (m *Metrics) Listed(client, principal, profile string, tokens int) {
	m.callers.listed(client, principal, profile, tokens)
}

// Costs returns the costs of the tools of the router's present servers, by server,
// client and profile.
func (m *Metrics) Costs(r Router) []Cost {
	present := make(map[string]bool)
	for _, s := range r.Servers() {
		present[s.Name] = true
	}
	m.forget(present)
	return m.callers.costs()
}

func (m *Metrics) of(t *registry.NormalizedTool) *toolSeries {
	l := label{serverOf(t), cmp.Or(t.Name, other)}
	if s := (*m.known.Load())[l]; s != nil {
		return s
	}
	return m.learn(l)
}

// serverOf returns the server of a tool, or ownServer for the router's own tools.
func serverOf(t *registry.NormalizedTool) string {
	if t.Server == "" {
		return ownServer
	}
	return t.Server
}

// learn creates the series of a tool, or returns the series "other".
func (m *Metrics) learn(l label) *toolSeries {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := *m.known.Load()
	if (len(known) >= maxTools || m.tools[l.server] >= maxToolsOf) && known[l] == nil {
		l.tool = other
	}
	if s := known[l]; s != nil {
		return s
	}
	m.tools[l.server]++
	server, tool := value(l.server), value(l.tool[:min(len(l.tool), maxValue)])
	s := &toolSeries{duration: m.durations.WithLabelValues(server, tool)}
	for _, outcome := range execute.Outcomes {
		s.outcomes = append(s.outcomes, m.calls.WithLabelValues(server, tool, string(outcome)))
	}
	s.server = &serverSeries{
		m.retries.WithLabelValues(server), m.standIns.WithLabelValues(server), m.cached.WithLabelValues(server),
		m.bytesIn.WithLabelValues(server), m.bytesOut.WithLabelValues(server),
	}
	next := maps.Clone(known)
	next[l] = s
	m.known.Store(&next)
	return s
}

// maxValue bounds the value of a label, in bytes.
const maxValue = 128

// value returns a name as the value of a label: valid UTF-8 of bounded length.
func value(name string) string { return strings.ToValidUTF8(name, string(utf8.RuneError)) }

// forget removes the series of servers that no longer exist. Otherwise they would add up
// with each edit of the configuration.
func (m *Metrics) forget(present map[string]bool) {
	m.callers.forget(present)
	m.mu.Lock()
	defer m.mu.Unlock()
	next := maps.Clone(*m.known.Load())
	gone := make(map[string]bool)
	maps.DeleteFunc(next, func(l label, _ *toolSeries) bool {
		if l.server == ownServer || present[l.server] {
			return false
		}
		gone[l.server] = true
		return true
	})
	if len(gone) == 0 {
		return
	}
	m.known.Store(&next)
	for name := range gone {
		delete(m.tools, name)
		at := prometheus.Labels{"server": value(name)}
		m.calls.DeletePartialMatch(at)
		m.durations.DeletePartialMatch(at)
		for _, v := range []*prometheus.CounterVec{m.retries, m.standIns, m.cached, m.bytesIn, m.bytesOut} {
			v.DeletePartialMatch(at)
		}
	}
}
