package telemetry

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/registry"
)

// scrapeTime bounds the time to write an answer, for a client that does not read it.
const scrapeTime = 30 * time.Second

// A Router has the state of its servers, the catalog and the state of its cluster, as
// [adapter.Parts] has.
type Router interface {
	Servers() []adapter.ServerInfo
	Snapshot() *registry.Snapshot
	Nodes() []adapter.NodeInfo
	ClusterReport() (r adapter.ClusterReport, c adapter.ClusterCounters, ok bool)
}

// Handler serves the metrics to Prometheus, in the format that it asks for, together with
// the state of the router's servers and cluster at that moment. It may be called once.
func (m *Metrics) Handler(r Router, log *zap.Logger) http.Handler {
	log = log.Named("metrics")
	m.registry.MustRegister(newServers(m, r), newCluster(r))
	show := promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorLog: zap.NewStdLog(log), ErrorHandling: promhttp.ContinueOnError, EnableOpenMetrics: true, MaxRequestsInFlight: 8,
	})
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		http.NewResponseController(w).SetWriteDeadline(time.Now().Add(scrapeTime))
		show.ServeHTTP(w, q)
	})
}

// servers are the metrics that are read from the router at each scrape.
type servers struct {
	metrics *Metrics
	router  Router

	state, restarts, offered, calls, waiting, strays, tools, tokens *prometheus.Desc
}

func newServers(m *Metrics, r Router) *servers {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("metarouter_"+name, help, labels, nil)
	}
	return &servers{
		metrics: m, router: r,
		state:    desc("server_state", "1 for the state that the server is in, 0 for the others.", "server", "state"),
		restarts: desc("server_restarts_total", "How often the server was started again.", "server"),
		offered:  desc("server_tools", "Tools of the server that are known, whether it runs or not.", "server"),
		calls:    desc("server_calls_in_flight", "Calls that the server is working on.", "server"),
		waiting:  desc("server_calls_waiting", "Calls that wait for their turn at the server.", "server"),
		strays:   desc("server_stray_lines", "Lines on the server's stdout that were no messages, in its current session.", "server"),
		tools:    desc("tools", "Tools that are known, of all servers."),
		tokens:   desc("list_tokens", "Tokens that a list of all tools costs a model, estimated as 4 bytes each."),
	}
}

// Describe implements [prometheus.Collector].
func (s *servers) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{s.state, s.restarts, s.offered, s.calls, s.waiting, s.strays, s.tools, s.tokens} {
		to <- d
	}
}

// Collect implements [prometheus.Collector].
func (s *servers) Collect(to chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, value int, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), labels...)
	}
	there := make(map[string]bool)
	for _, info := range s.router.Servers() {
		there[info.Name] = true
		name := value(info.Name)
		for _, state := range status.States {
			is := 0
			if info.State == state {
				is = 1
			}
			gauge(s.state, is, name, string(state))
		}
		to <- prometheus.MustNewConstMetric(s.restarts, prometheus.CounterValue, float64(info.Restarts), name)
		gauge(s.offered, info.Tools, name)
		gauge(s.calls, info.Calls, name)
		gauge(s.waiting, info.Waiting, name)
		gauge(s.strays, int(info.StrayLines), name)
	}
	snapshot := s.router.Snapshot()
	gauge(s.tools, len(snapshot.Tools()))
	gauge(s.tokens, registry.Tokens(snapshot.Tools()))
	s.metrics.forget(there)
}
