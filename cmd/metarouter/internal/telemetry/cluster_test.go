package telemetry

import (
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A fakeCluster is a cluster of fixed nodes.
type fakeCluster struct {
	nodes  []clusternode.Info
	report clusternode.Report
}

func (r *fakeRouter) Nodes() []clusternode.Info {
	if r.cluster == nil {
		return nil
	}
	return r.cluster.nodes
}

func (r *fakeRouter) ClusterReport() (clusternode.Report, bool) {
	if r.cluster == nil {
		return clusternode.Report{}, false
	}
	return r.cluster.report, true
}

func TestClusterMetrics(t *testing.T) {
	r := newFakeRouter("s")
	h := NewMetrics("1").Handler(r, zap.NewNop())
	if text, _ := scrape(t, h, "text/plain"); strings.Contains(text, "metarouter_cluster") {
		t.Errorf("a router in no cluster has its metrics:\n%s", text)
	}
	r.cluster = &fakeCluster{
		nodes: []clusternode.Info{
			{Node: "desk", Self: true, Trusted: true, Alive: true},
			{Node: "box", Trusted: true, Alive: true, Latency: 1.5},
			{Node: "nas", Trusted: true},
			{Node: "box", Alive: true, Latency: 7}, // a rogue
		},
		report: clusternode.Report{Connected: true},
	}
	text, _ := scrape(t, h, "text/plain")
	if problems, err := promlint.New(strings.NewReader(text)).Lint(); err != nil || len(problems) > 0 {
		t.Errorf("promlint says %v, %v", problems, err)
	}
	families := parse(t, text)
	for _, tt := range []struct {
		want   float64
		name   string
		labels []string
	}{
		{1, "connected", nil},
		{0, "jetstream", nil},
		{1, "nodes", []string{"state", "alive"}},
		{1, "nodes", []string{"state", "lost"}},
		{1, "nodes", []string{"state", "untrusted"}},
		{1, "node_alive", []string{"node", "box"}},
		{0, "node_alive", []string{"node", "nas"}},
		{0.0015, "node_latency_seconds", []string{"node", "box"}},
		{-1, "node_latency_seconds", []string{"node", "nas"}},
		{-1, "node_alive", []string{"node", "desk"}},
	} {
		expect.Equal(t, sample(families, "metarouter_cluster_"+tt.name, tt.labels...), tt.want, "%s%v", tt.name, tt.labels)
	}
}

// However many nodes there are, and whatever their names, the page stays short and correct.
func TestMetricsOfManyNodes(t *testing.T) {
	r := newFakeRouter("s")
	r.cluster = new(fakeCluster)
	for i := range 10 * maxNodes {
		r.cluster.nodes = append(r.cluster.nodes, clusternode.Info{Node: fmt.Sprint("n", i), Trusted: true, Alive: true})
	}
	r.cluster.nodes = append(r.cluster.nodes, r.cluster.nodes[0])
	text, _ := scrape(t, NewMetrics("1").Handler(r, zap.NewNop()), "text/plain")
	families := parse(t, text)
	expect.Equal(t, len(families["metarouter_cluster_node_alive"].GetMetric()), maxNodes, "nodes have series")
	expect.Equal(t, sample(families, "metarouter_cluster_nodes", "state", "alive"), 10*maxNodes+1, "nodes are alive")
}
