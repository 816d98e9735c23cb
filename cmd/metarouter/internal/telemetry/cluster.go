package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"
)

// maxNodes bounds the nodes with their own series. Only trusted nodes have series.
const maxNodes = 200

// clusterMetrics are the metrics of the router's cluster, which are read at each scrape. A router in no
// cluster has none of them.
type clusterMetrics struct {
	router Router

	connected, jetStream, roundTrip, nodes, alive, latency, to, from, dropped *prometheus.Desc
}

func newCluster(r Router) *clusterMetrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("metarouter_cluster_"+name, help, labels, nil)
	}
	return &clusterMetrics{
		router:    r,
		connected: desc("connected", "1 while the router is connected to NATS."),
		jetStream: desc("jetstream", "1 while the lists of servers can be read from NATS's JetStream."),
		roundTrip: desc("nats_round_trip_seconds", "How long NATS took to answer the last ping."),
		nodes:     desc("nodes", "Other nodes of the cluster: alive, lost lately, or untrusted.", "state"),
		alive:     desc("node_alive", "1 while heartbeats of the trusted node arrive.", "node"),
		latency:   desc("node_latency_seconds", "How long the trusted node took to answer the last ping.", "node"),
		to:        desc("calls_sent_total", "Calls of this router's clients that the node ran or was asked to run, by outcome.", "node", "outcome"),
		from:      desc("calls_received_total", "Calls of the node's clients that this router ran or was asked to run, by outcome.", "node", "outcome"),
		dropped:   desc("frames_dropped_total", "Frames of other nodes that were dropped, by reason.", "reason"),
	}
}

// Describe implements [prometheus.Collector].
func (c *clusterMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.connected, c.jetStream, c.roundTrip, c.nodes, c.alive, c.latency, c.to, c.from, c.dropped} {
		to <- d
	}
}

// Collect implements [prometheus.Collector].
func (c *clusterMetrics) Collect(to chan<- prometheus.Metric) {
	report, counters, ok := c.router.ClusterReport()
	if !ok {
		return
	}
	gauge := func(d *prometheus.Desc, value float64, labels ...string) {
		to <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
	}
	gauge(c.connected, number(report.Connected))
	gauge(c.jetStream, number(report.JetStream))
	if report.Connected {
		gauge(c.roundTrip, report.RoundTrip.Seconds())
	}
	c.collectNodes(gauge)
	c.collectCalls(to, c.to, counters.To)
	c.collectCalls(to, c.from, counters.From)
	for reason, n := range counters.Dropped {
		to <- prometheus.MustNewConstMetric(c.dropped, prometheus.CounterValue, float64(n), reason)
	}
}

func (c *clusterMetrics) collectNodes(gauge func(d *prometheus.Desc, value float64, labels ...string)) {
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
		name := value(n.Node)
		if seen[name] || len(seen) >= maxNodes {
			continue
		}
		seen[name] = true
		gauge(c.alive, number(n.Alive), name)
		if n.Alive {
			gauge(c.latency, n.Latency/1000, name)
		}
	}
	gauge(c.nodes, float64(alive), "alive")
	gauge(c.nodes, float64(lost), "lost")
	gauge(c.nodes, float64(untrusted), "untrusted")
}

// collectCalls sends the calls by node and outcome. Counters bound the nodes.
func (c *clusterMetrics) collectCalls(to chan<- prometheus.Metric, d *prometheus.Desc, nodes map[string]map[string]uint64) {
	sum := make(map[[2]string]uint64) // two names may have one value
	for node, calls := range nodes {
		for outcome, n := range calls {
			sum[[2]string{value(node), outcome}] += n
		}
	}
	for l, n := range sum {
		to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), l[0], l[1])
	}
}

// number returns 1 for true.
func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
