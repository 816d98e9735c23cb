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

// A clusterView is what there is to see of the cluster, as [cluster.Node] has it.
type clusterView interface {
	Nodes() []NodeInfo
	Report() ClusterReport
	Counters() ClusterCounters
}

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
	if view := p.router.view(); view != nil {
		return view.Nodes()
	}
	return nil
}

// ClusterReport returns how the connection to the cluster is, and what was counted. ok is false if
// the router is in no cluster.
func (p *Parts) ClusterReport() (r ClusterReport, c ClusterCounters, ok bool) {
	view := p.router.view()
	if view == nil {
		return r, c, false
	}
	return view.Report(), view.Counters(), true
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

// view returns what there is to see of the cluster; nil if the router is in none.
func (r *Router) view() clusterView {
	if node := r.members.node(); node != nil {
		return node
	}
	return nil
}
