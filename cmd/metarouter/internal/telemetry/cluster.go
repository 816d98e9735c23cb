package telemetry

import (
	"github.com/prometheus/client_golang/prometheus"
)

// maxNodes bounds the nodes with their own series. Only trusted nodes have series.
const maxNodes = 200

// A clusterCollector reads the state of the router's cluster at each scrape, if it is in one.
type clusterCollector struct{ router Router }

// Describe implements [prometheus.Collector], as [serverCollector.Describe] does.
func (clusterCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (c clusterCollector) Collect(to chan<- prometheus.Metric) {
	report, counters, ok := c.router.ClusterReport()
	if !ok {
		return
	}
	series(to, prometheus.GaugeValue, "cluster_connected", "1 while the router is connected to NATS.")(number(report.Connected))
	series(to, prometheus.GaugeValue, "cluster_jetstream", "1 while the lists of servers can be read from NATS's JetStream.")(number(report.JetStream))
	if report.Connected {
		series(to, prometheus.GaugeValue, "cluster_nats_round_trip_seconds", "How long NATS took to answer the last ping.")(report.RoundTrip.Seconds())
	}
	c.collectNodes(to)
	collectCalls(counters.To, series(to, prometheus.CounterValue, "cluster_calls_sent_total", "Calls of this router's clients that the node ran or was asked to run, by outcome.", "node", "outcome"))
	collectCalls(counters.From, series(to, prometheus.CounterValue, "cluster_calls_received_total", "Calls of the node's clients that this router ran or was asked to run, by outcome.", "node", "outcome"))
}

func (c clusterCollector) collectNodes(to chan<- prometheus.Metric) {
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
		name := value(n.Node)
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

// collectCalls sends the calls by node and outcome. Counters bound the nodes.
func collectCalls(nodes map[string]map[string]uint64, send func(value float64, of ...string)) {
	sum := make(map[[2]string]uint64) // two names may have one value
	for node, calls := range nodes {
		for outcome, n := range calls {
			sum[[2]string{value(node), outcome}] += n
		}
	}
	for l, n := range sum {
		send(float64(n), l[0], l[1])
	}
}

func number(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
