package telemetry

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/registry"
)

const (
	// scrapeTime bounds the time to write an answer, for a client that does not read it.
	scrapeTime = 30 * time.Second

	// maxNodes bounds the nodes with their own series. Only trusted nodes have series.
	maxNodes = 200
)

// A Router has the state of its servers, the catalog and the state of its cluster, as
// [adapter.Router] has.
type Router interface {
	Servers() []status.Server
	Snapshot() *registry.Snapshot
	Nodes() []clusternode.Info
	ClusterReport() (r clusternode.Report, ok bool)
}

// Handler serves the metrics to Prometheus, in the format that it asks for, together with
// the state of the router's servers and cluster at that moment. It may be called once.
func (m *Metrics) Handler(r Router, log *zap.Logger) http.Handler {
	log = log.Named("metrics")
	m.registry.MustRegister(stateCollector{r})
	show := promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorLog: zap.NewStdLog(log), ErrorHandling: promhttp.ContinueOnError, EnableOpenMetrics: true, MaxRequestsInFlight: 8,
	})
	return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		http.NewResponseController(w).SetWriteDeadline(time.Now().Add(scrapeTime))
		show.ServeHTTP(w, q)
	})
}

// A stateCollector reads the state of the router's servers at each scrape, and of its cluster if it is in one.
type stateCollector struct{ router Router }

// Describe implements [prometheus.Collector]. It sends nothing: the registry then takes any metric.
func (stateCollector) Describe(chan<- *prometheus.Desc) {}

// series returns the function that sends the values of a metric, with the values of its labels.
func series(to chan<- prometheus.Metric, kind prometheus.ValueType, name, help string, labels ...string) func(value float64, of ...string) {
	d := prometheus.NewDesc("metarouter_"+name, help, labels, nil)
	return func(value float64, of ...string) { to <- prometheus.MustNewConstMetric(d, kind, value, of...) }
}

// Collect implements [prometheus.Collector].
func (c stateCollector) Collect(to chan<- prometheus.Metric) {
	c.collectServers(to)
	if report, ok := c.router.ClusterReport(); ok {
		c.collectCluster(to, report)
	}
}

func (c stateCollector) collectServers(to chan<- prometheus.Metric) {
	const gauge = prometheus.GaugeValue
	state := series(to, gauge, "server_state", "1 for the state that the server is in, 0 for the others.", "server", "state")
	restarts := series(to, prometheus.CounterValue, "server_restarts_total", "How often the server was started again.", "server")
	tools := series(to, gauge, "server_tools", "Tools of the server that are known, whether it runs or not.", "server")
	calls := series(to, gauge, "server_calls_in_flight", "Calls that the server is working on.", "server")
	waiting := series(to, gauge, "server_calls_waiting", "Calls that wait for their turn at the server.", "server")
	strays := series(to, gauge, "server_stray_lines", "Lines on the server's stdout that were no messages, in its current session.", "server")
	for _, info := range c.router.Servers() {
		name := valid(info.Name)
		for _, one := range status.States {
			state(number(info.State == one), name, string(one))
		}
		restarts(float64(info.Restarts), name)
		tools(float64(info.Tools), name)
		calls(float64(info.Calls), name)
		waiting(float64(info.Waiting), name)
		strays(float64(info.StrayLines), name)
	}
	all := c.router.Snapshot().Tools()
	series(to, gauge, "tools", "Tools that are known, of all servers.")(float64(len(all)))
	series(to, gauge, "list_tokens", "Tokens that a list of all tools costs a model, estimated as 4 bytes each.")(float64(exposure.Tokens(all)))
}

func (c stateCollector) collectCluster(to chan<- prometheus.Metric, report clusternode.Report) {
	series(to, prometheus.GaugeValue, "cluster_connected", "1 while the router is connected to NATS.")(number(report.Connected))
	series(to, prometheus.GaugeValue, "cluster_jetstream", "1 while the lists of servers can be read from NATS's JetStream.")(number(report.JetStream))
	isAlive := series(to, prometheus.GaugeValue, "cluster_node_alive", "1 while the trusted node is alive.", "node")
	latency := series(to, prometheus.GaugeValue, "cluster_node_latency_seconds", "How long the trusted node took to answer the last ping.", "node")
	var alive, lost, untrusted int
	seen := make(map[string]bool)
	for _, n := range c.router.Nodes() {
		switch {
		case n.Self:
			continue
		case !n.Trusted:
			untrusted++
			continue
		case n.Alive:
			alive++
		default:
			lost++
		}
		name := valid(n.Node)
		if seen[name] || len(seen) >= maxNodes {
			continue
		}
		seen[name] = true
		isAlive(number(n.Alive), name)
		if n.Alive {
			latency(n.Latency/1000, name)
		}
	}
	nodes := series(to, prometheus.GaugeValue, "cluster_nodes", "Other nodes of the cluster: alive, lost lately, or untrusted.", "state")
	nodes(float64(alive), "alive")
	nodes(float64(lost), "lost")
	nodes(float64(untrusted), "untrusted")
}

func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
