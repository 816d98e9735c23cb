package admin

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/clusternode"
)

// A page gets the nodes with the calls to and from each, and only the identity of an
// untrusted one.
func TestClusterOf(t *testing.T) {
	seen := time.Date(2026, 7, 28, 10, 0, 0, 5, time.UTC)
	c := clusterInfoOf(clusternode.Report{Connected: true, Server: "2.12.1", Problems: []string{"The node nas: x.", "a\x1bb"}}, clusternode.Counters{
		To:   map[string]map[string]uint64{"box": {"ok": 7, "error": 2, "unknown": 1}},
		From: map[string]map[string]uint64{"box": {"ok": 1, "not_sent": 3}},
	}, []clusternode.Info{
		{Node: "desk", Self: true, Trusted: true, Alive: true, LastSeen: seen},
		{Node: "box", Trusted: true, Alive: true, Latency: 0.4321, LastSeen: seen, Servers: []string{"gpu"}, Tools: 2},
		{Node: "nas", Trusted: true, LastSeen: seen},
		{Node: "box", Key: "UROGUE", Alive: true, LastSeen: seen},
	})
	if !c.In || !c.Connected || c.JetStream || c.Total != 4 || len(c.Nodes) != 4 || len(c.Problems) != 1 || strings.Contains(c.Problems[0], "\x1b") {
		t.Fatalf("%+v", c)
	}
	box, nas, rogue := c.Nodes[1], c.Nodes[2], c.Nodes[3]
	if box.Latency != 0.4 || !box.LastSeen.IsZero() || box.Sent != (traffic{10, 1}) || box.Received != (traffic{4, 3}) || box.Servers[0] != "gpu" {
		t.Errorf("box %+v", box)
	}
	if nas.Alive || !nas.LastSeen.Equal(seen.Truncate(time.Second)) || nas.Sent != (traffic{}) {
		t.Errorf("nas %+v", nas)
	}
	if rogue.Trusted || rogue.Sent.Calls+rogue.Received.Calls != 0 {
		t.Errorf("a rogue has the calls of the node whose name it uses: %+v", rogue)
	}
	if text, err := json.Marshal(c); err != nil || strings.Contains(string(text), "null") || !strings.Contains(string(text), `"servers":[]`) {
		t.Errorf("%s, %v", text, err)
	}
}

func TestClusterOfManyNodes(t *testing.T) {
	var nodes []clusternode.Info
	for i := range 5 * maxNodes {
		nodes = append(nodes, clusternode.Info{Node: fmt.Sprint(i)})
	}
	if c := clusterInfoOf(clusternode.Report{}, clusternode.Counters{}, nodes); len(c.Nodes) != maxNodes || c.Total != 5*maxNodes {
		t.Errorf("%d of %d", len(c.Nodes), c.Total)
	}
}
