package httpd

import (
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// A MeshNode is a node as JSON. The first one is this router; the others are those of its cluster:
//
//	{"nodes": [{
//	  "node_id": "box",               // as in the _meta of results
//	  "self": true,
//	  "version": "1.4.0", "status": "ok", "mode": "search",
//	  "uptime_seconds": 93.4,
//	  "url": "http://127.0.0.1:8787/mcp", // the public URL, or as the client has called it
//	  "transports": ["streamable-http", "json-rpc", "rest"],
//	  "tools": 12,                    // of its own servers
//	  "servers": [{"name", "state", "transport", "era", "protocol_version",
//	               "tools", "pid", "restarts", "last_error", "several"}]
//	}, {
//	  "node_id": "laptop", "self": false,
//	  "version": "1.4.0",
//	  "status": "ok",                 // or "lost" or "untrusted"
//	  "tools": 3,                     // of the servers below
//	  "servers": [{"name": "files", "state": "ready", "tools": 3, …}], // "unused" if this router does not use it
//	  "latency_ms": 0.4, "last_seen": "2026-07-28T10:00:00Z", "trusted": true,
//	  "key": "U…", "problem": ""      // for admins
//	}]}
type MeshNode struct {
	NodeID  string `json:"node_id"`
	Self    bool   `json:"self"`
	Version string `json:"version"`
	Status  string `json:"status"`
	*MeshSelf
	Tools   int         `json:"tools"`
	Servers []ServerRow `json:"servers"` // by the names that the node has for them
	*MeshPeer
}

// A MeshSelf is what the router says of itself alone.
type MeshSelf struct {
	Mode       string   `json:"mode"`
	Uptime     float64  `json:"uptime_seconds"`
	URL        string   `json:"url"`
	Transports []string `json:"transports"`
}

// A MeshPeer is what the router says of other nodes alone.
type MeshPeer struct {
	LatencyMS float64   `json:"latency_ms"`
	LastSeen  time.Time `json:"last_seen"`
	Trusted   bool      `json:"trusted"`
	Key       string    `json:"key,omitempty"`     // its public key
	Problem   string    `json:"problem,omitempty"` // what is wrong with it
}

// The states of nodes, and of a server that this router does not use.
const (
	nodeLost      = "lost"
	nodeUntrusted = "untrusted"
	unused        = "unused"
)

// meshScan answers with the nodes and the state of their servers: to an admin without a profile
// of all, to others of those that the profile has.
func (i *info) meshScan(w http.ResponseWriter, r *http.Request) {
	q := requestOf(r)
	router := q.backend.Router
	if q.client.principal.Admin && q.client.principal.Profile == "" {
		router = i.Whole
	}
	own, remote := divided(ServerRows(router.Servers()))
	self := MeshNode{
		NodeID: i.Node, Self: true, Version: i.Version, Status: statusOf(router.Classifier().Health()),
		Servers: own, Tools: len(router.Snapshot().Tools()), MeshSelf: &MeshSelf{
			Mode: q.backend.Mode(), Uptime: math.Round(time.Since(i.Started).Seconds()*1000) / 1000,
			URL: i.urlOf(w, r), Transports: []string{"streamable-http", "json-rpc", "rest"},
		},
	}
	for _, r := range remote {
		self.Tools -= r.Tools
	}
	nodes := []MeshNode{self}
	for _, n := range router.Nodes() {
		if n.Self {
			nodes[0].NodeID = n.Node
		} else if n.Trusted || q.client.principal.Admin {
			nodes = append(nodes, peerOf(n, remote))
		}
	}
	if !q.client.principal.Admin {
		for i := range nodes {
			conceal(&nodes[i])
		}
	}
	writeJSON(w, r, http.StatusOK, append(wire.Marshal(map[string][]MeshNode{"nodes": nodes}), '\n'))
}

// urlOf returns the address of this router for its clients.
func (i *info) urlOf(w http.ResponseWriter, r *http.Request) string {
	q := requestOf(r)
	if q.rules.publicURL != "" {
		return q.rules.publicURL + "/mcp"
	}
	scheme := "http"
	if r.TLS != nil {
		scheme = "https"
	}
	return scheme + "://" + r.Host + "/mcp"
}

// divided divides the servers of this router from those of other nodes.
func divided(all []ServerRow) (own, remote []ServerRow) {
	own = []ServerRow{}
	for _, row := range all {
		if row.Node == "" {
			own = append(own, row)
		} else {
			remote = append(remote, row)
		}
	}
	return own, remote
}

// peerOf returns another node with the servers that it shares. Of those that this router uses,
// remote has the state.
func peerOf(n adapter.NodeInfo, remote []ServerRow) MeshNode {
	m := MeshNode{NodeID: n.Node, Version: n.Version, Status: "ok", Servers: []ServerRow{}, MeshPeer: &MeshPeer{
		LatencyMS: n.Latency, LastSeen: n.LastSeen, Trusted: n.Trusted, Key: n.Key, Problem: n.Problem,
	}}
	if !n.Trusted {
		m.Status = nodeUntrusted
		return m // what it announces is not believed
	}
	if !n.Alive {
		m.Status = nodeLost
	}
	for _, row := range remote {
		if row.Node == n.Node {
			row.Name, row.Node = strings.TrimSuffix(row.Name, "@"+n.Node), ""
			m.Servers, m.Tools = append(m.Servers, row), m.Tools+row.Tools
		}
	}
	for _, name := range n.Servers {
		if !slices.ContainsFunc(m.Servers, func(row ServerRow) bool { return row.Name == name }) {
			m.Servers = append(m.Servers, ServerRow{Name: name, State: unused, Transport: adapter.ByCluster})
		}
	}
	return m
}

// conceal removes what is not for those who only use tools: processes, errors, keys, and servers
// that this router does not use.
func conceal(m *MeshNode) {
	m.Servers = slices.DeleteFunc(m.Servers, func(row ServerRow) bool { return row.State == unused })
	for i := range m.Servers {
		row := &m.Servers[i]
		row.PID, row.Restarts, row.LastError, row.Several = 0, 0, "", ""
	}
	if m.MeshPeer != nil {
		m.Key, m.Problem = "", ""
	}
}
