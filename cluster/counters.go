package cluster

import (
	"github.com/mcp-metarouter/metarouter/cluster/internal/count"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
)

// Counters returns the counters. It does not wait.
func (n *Node) Counters() clusternode.Counters { return countersOf(&n.counts) }

// countersOf returns the counters of the counts. Each reason to drop a frame is there, and each
// outcome of a node that has calls.
func countersOf(c *count.Counts) clusternode.Counters {
	to, from, dropped := c.Now()
	all := clusternode.Counters{To: byOutcome(to), From: byOutcome(from), Dropped: make(map[string]uint64)}
	for _, why := range count.Reasons {
		all.Dropped[string(why)] = dropped[why]
	}
	return all
}

func byOutcome(nodes map[string]count.Calls) map[string]map[string]uint64 {
	all := make(map[string]map[string]uint64, len(nodes))
	for node, calls := range nodes {
		all[node] = make(map[string]uint64)
		for _, o := range count.Outcomes {
			all[node][string(o)] = calls[o]
		}
	}
	return all
}
