package cluster

import "github.com/mcp-metarouter/metarouter/cluster/internal/count"

// Counters count the calls and dropped frames of a router in its cluster since it was started.
type Counters struct {
	// Calls by the name of the other node and by outcome: To counts calls of own clients, From
	// calls of clients of that node. Outcomes are "ok", "error" (of the server), "not_sent" (not
	// run), "unknown" (may have run) and "cancelled". At most 200 nodes have a name; the others are
	// counted as "(others)".
	To, From map[string]map[string]uint64

	// Frames that were dropped, by reason: "garbage", "version", "untrusted", "signature",
	// "recipient", "clock", "repeated", "overflow" and "unwanted".
	Dropped map[string]uint64
}

// Counters returns the counters. It does not wait.
func (n *Node) Counters() Counters { return countersOf(&n.counts) }

// countersOf returns the counters of the counts. Each reason to drop a frame is there, and each
// outcome of a node that has calls.
func countersOf(c *count.Counts) Counters {
	to, from, dropped := c.Now()
	all := Counters{To: byOutcome(to), From: byOutcome(from), Dropped: make(map[string]uint64)}
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
