package admin

import (
	"math"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/plain"
)

// maxNodes is how many nodes a page gets.
const maxNodes = 200

func clusterOf(r *adapter.Router) *clusterInfo {
	report, counters, in := r.ClusterReport()
	if !in {
		return &clusterInfo{Nodes: []nodeInfo{}}
	}
	return clusterInfoOf(report, counters, r.Nodes())
}

func clusterInfoOf(report clusternode.Report, counters clusternode.Counters, nodes []clusternode.Info) *clusterInfo {
	c := &clusterInfo{
		In: true, Connected: report.Connected, JetStream: report.JetStream, URL: plain.Text(report.URL), Server: plain.Text(report.Server),
		Nodes: []nodeInfo{}, Total: len(nodes),
	}
	for _, p := range report.Problems {
		if !strings.HasPrefix(p, "The node ") { // else it is shown with the node
			c.Problems = append(c.Problems, plain.Text(p))
		}
	}
	for _, n := range nodes[:min(len(nodes), maxNodes)] {
		c.Nodes = append(c.Nodes, nodeOf(n, counters))
	}
	return c
}

func nodeOf(n clusternode.Info, counters clusternode.Counters) nodeInfo {
	for _, text := range []*string{&n.Node, &n.Key, &n.Version, &n.Problem} {
		*text = plain.Text(*text)
	}
	if !n.Trusted { // the page gives the same advice for all others
		n.Problem = ""
	}
	servers := []string{}
	for _, s := range n.Servers {
		servers = append(servers, plain.Text(s))
	}
	n.Servers, n.Latency = servers, math.Round(n.Latency*10)/10
	info := nodeInfo{Info: n}
	if !n.Alive {
		info.LastSeen = n.LastSeen.Truncate(time.Second)
	}
	if n.Trusted && !n.Self {
		info.Sent, info.Received = trafficOf(counters.To[n.Node]), trafficOf(counters.From[n.Node])
	}
	return info
}

func trafficOf(outcomes map[string]uint64) (t traffic) {
	for outcome, n := range outcomes {
		t.Calls += n
		if outcome == "not_sent" || outcome == "unknown" {
			t.Failed += n
		}
	}
	return t
}
