package cluster_test

import (
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap/zaptest"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/cluster"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/natsserver"
)

func TestObserve(t *testing.T) {
	layer.Integration(t)
	s := natsserver.Start(t)
	fileA, keyA := newKey(t)
	fileB, keyB := newKey(t)
	fileC, keyC := newKey(t)
	log := zaptest.NewLogger(t)
	box, rogue := newRouter(t, log.Named("box"), fileB, keyB), newRouter(t, log.Named("rogue"), fileC, keyC)
	box.offer(2, "gpu")
	rogue.offer(2, "github")
	box.run(t, configOf(s, "box", keyA))
	rogue.run(t, configOf(s, "rogue", keyA, keyB))
	var nodes []clusternode.Info
	var report clusternode.Report
	for range 40 { // until box has announced and has answered
		var err error
		if nodes, report, err = cluster.Observe(t.Context(), configOf(s, "ann", keyB), fileA, "1.2.3"); err != nil {
			t.Fatal(err)
		}
		if len(nodes) == 3 && nodes[1].Tools > 0 && nodes[1].Latency > 0 && nodes[1].Problem == "" {
			break
		}
	}
	if len(nodes) != 3 || !nodes[0].Self || nodes[0].Node != "ann" || nodes[0].Key != keyA || !nodes[0].Trusted ||
		nodes[1].Node != "box" || !nodes[1].Trusted || !nodes[1].Alive || nodes[1].Latency <= 0 || nodes[1].Tools != 2 || !slices.Equal(nodes[1].Servers, []string{"gpu"}) ||
		nodes[2].Key != keyC || nodes[2].Trusted || len(nodes[2].Servers) != 0 {
		t.Errorf("%+v", nodes)
	}
	if !report.Connected || !strings.HasPrefix(report.Server, "2.") || !report.JetStream || len(report.Problems) > 0 || !strings.Contains(nodes[2].Problem, "nodes trust "+keyC) {
		t.Errorf("%+v", report)
	}
	box.until(t, "rogue", func() bool { return len(box.Nodes()) >= 2 })
	expect.Equal(t, len(box.Nodes()), 2, "%+v", box.Nodes()) // it does not hear of ann
}

// A trusted node that does not trust us leaves our pings unanswered.
func TestObserveUntrusting(t *testing.T) {
	layer.Integration(t)
	s := natsserver.Start(t)
	fileA, _ := newKey(t)
	fileB, keyB := newKey(t)
	newRouter(t, zaptest.NewLogger(t), fileB, keyB).run(t, configOf(s, "box"))
	var nodes []clusternode.Info
	var report clusternode.Report
	for range 40 { // until box beats and refuses the stream
		var err error
		if nodes, report, err = cluster.Observe(t.Context(), configOf(s, "ann", keyB), fileA, "1.2.3"); err != nil {
			t.Fatal(err)
		}
		if len(nodes) == 2 && strings.HasPrefix(nodes[1].Problem, "it does not trust this node") {
			break
		}
	}
	if len(nodes) != 2 || nodes[0].Problem != "" || !nodes[1].Alive || !strings.Contains(nodes[1].Problem, "it does not trust this node") {
		t.Errorf("%+v", nodes)
	}
	if len(report.Problems) != 1 || !strings.HasPrefix(report.Problems[0], "The node box (key "+keyB+"): it does not trust this node") {
		t.Errorf("%+v", report)
	}
}

func TestObserveNothing(t *testing.T) {
	layer.Integration(t)
	file, _ := newKey(t)
	_, report, err := cluster.Observe(t.Context(), config.Cluster{URLs: []string{"nats://127.0.0.1:1"}, Name: "metarouter"}, file, "1.2.3")
	if err == nil || len(report.Problems) == 0 {
		t.Errorf("%v, %+v", err, report)
	}
}
