package adapter

import (
	"strings"

	"github.com/mcp-metarouter/metarouter/cluster"
)

// ByCluster is the transport of servers on other nodes.
const ByCluster = "cluster"

// The types of a cluster.
type (
	// A NodeInfo is a node of the cluster as people see it.
	NodeInfo = cluster.NodeInfo

	// ClusterCounters are what the router has counted in its cluster.
	ClusterCounters = cluster.Counters

	// A ClusterReport says how the connection to the cluster is.
	ClusterReport = cluster.Report
)

// Node returns the name of the node that has the server; "" for a server of this router, and for one
// with replicas on several nodes.
func (i ServerInfo) Node() string {
	at := strings.LastIndexByte(i.Name, '@')
	if i.Transport != ByCluster || at < 0 {
		return ""
	}
	return i.Name[at+1:]
}

// Nodes returns the nodes of the cluster, this one first; nil if the router is in no cluster.
func (p *Parts) Nodes() []NodeInfo {
	if node := p.members.node(); node != nil {
		return node.Nodes()
	}
	return nil
}

// ClusterReport returns how the connection to the cluster is, and what was counted. ok is false if
// the router is in no cluster.
func (p *Parts) ClusterReport() (r ClusterReport, c ClusterCounters, ok bool) {
	node := p.members.node()
	if node == nil {
		return r, c, false
	}
	return node.Report(), node.Counters(), true
}

// Nodes returns the nodes as the clients may see them. With a profile these are this node and the
// trusted ones that have a server which the profile allows, without keys and with these servers
// alone.
func (s *Scope) Nodes() []NodeInfo {
	all, j := s.parts.Nodes(), s.judge()
	if j.rules == nil {
		return all
	}
	var some []NodeInfo
	for _, n := range all {
		if !n.Trusted {
			continue
		}
		servers := []string{}
		for _, name := range n.Servers {
			seen := name
			if !n.Self {
				seen += "@" + n.Node
			}
			if j.server(seen) {
				servers = append(servers, name)
			}
		}
		if n.Self || len(servers) > 0 {
			some = append(some, NodeInfo{
				Node: n.Node, Self: n.Self, Trusted: true, Alive: n.Alive, Version: n.Version,
				Servers: servers, Latency: n.Latency, LastSeen: n.LastSeen,
			})
		}
	}
	return some
}
