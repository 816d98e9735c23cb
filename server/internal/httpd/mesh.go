package httpd

import (
	"cmp"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/classify"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/server/internal/catalog"
)

// A MeshNode is a node as JSON, of {"nodes": […]}. The first one is this router; the others are the nodes of its cluster.
type MeshNode struct {
	NodeID  string `json:"node_id"` // as in the _meta of results
	Self    bool   `json:"self"`
	Version string `json:"version"`
	Status  string `json:"status"` // "ok"; of other nodes also "ok", "lost" or "untrusted"
	*MeshSelf
	Tools   int                  `json:"tools"`   // of the servers below
	Servers []exposure.ServerRow `json:"servers"` // by the names that the node has for them
	*MeshPeer
}

// A MeshSelf has members of this router alone.
type MeshSelf struct {
	Mode       string   `json:"mode"` // "search", "direct" or "code"
	Uptime     float64  `json:"uptime_seconds"`
	URL        string   `json:"url"`        // the public one, or as the client has called it
	Transports []string `json:"transports"` // "streamable-http", "json-rpc", "rest"
}

// A MeshPeer has members of other nodes alone.
type MeshPeer struct {
	LatencyMS float64   `json:"latency_ms"`
	LastSeen  time.Time `json:"last_seen"`
	Trusted   bool      `json:"trusted"`
	Key       string    `json:"key,omitempty"`     // its public key, for administrators
	Problem   string    `json:"problem,omitempty"` // its problem, for administrators
}

// unused is the state of a server that this router does not use.
const unused = "unused"

// meshScan answers with the nodes and the state of their servers: to an admin without a profile
// of all, to others of those that the profile has.
func (b *Backends) meshScan(w http.ResponseWriter, r *http.Request) {
	q := requestOf(r)
	router := q.backend.Router
	if q.client.Principal.Admin && q.client.Principal.Profile == "" {
		router = b.Whole
	}
	all := exposure.ServerRows(router.Servers())
	own := slices.DeleteFunc(slices.Clone(all), func(row exposure.ServerRow) bool { return row.Node != "" })
	remote := slices.DeleteFunc(all, func(row exposure.ServerRow) bool { return row.Node == "" })
	at := q.rules.clients.PublicURL
	if at == "" && r.TLS != nil {
		at = "https://" + r.Host
	}
	self := MeshNode{
		NodeID: b.Node, Self: true, Version: b.Version, Status: "ok",
		Servers: own, Tools: len(router.Snapshot().Tools()), MeshSelf: &MeshSelf{
			Mode: q.backend.Mode(), Uptime: math.Round(time.Since(b.Started).Seconds()*1000) / 1000,
			URL: cmp.Or(at, "http://"+r.Host) + "/mcp", Transports: []string{"streamable-http", "json-rpc", "rest"},
		},
	}
	for _, r := range remote {
		self.Tools -= r.Tools
	}
	nodes := []MeshNode{self}
	for _, n := range router.Nodes() {
		if n.Self {
			nodes[0].NodeID = n.Node
		} else if n.Trusted || q.client.Principal.Admin {
			nodes = append(nodes, peerOf(n, remote))
		}
	}
	if !q.client.Principal.Admin {
		for i := range nodes {
			conceal(&nodes[i])
		}
	}
	writeJSON(w, r, http.StatusOK, append(wire.Marshal(map[string][]MeshNode{"nodes": nodes}), '\n'))
}

// peerOf returns another node with the servers that it shares. Of those that this router uses,
// remote has the state.
func peerOf(n clusternode.Info, remote []exposure.ServerRow) MeshNode {
	m := MeshNode{NodeID: n.Node, Version: n.Version, Status: "ok", Servers: []exposure.ServerRow{}, MeshPeer: &MeshPeer{
		LatencyMS: n.Latency, LastSeen: n.LastSeen, Trusted: n.Trusted, Key: n.Key, Problem: n.Problem,
	}}
	if !n.Trusted {
		m.Status = "untrusted"
		return m // its announcements are not believed
	}
	if !n.Alive {
		m.Status = "lost"
	}
	for _, row := range remote {
		if row.Node == n.Node {
			row.Name, row.Node = strings.TrimSuffix(row.Name, "@"+n.Node), ""
			m.Servers, m.Tools = append(m.Servers, row), m.Tools+row.Tools
		}
	}
	for _, name := range n.Servers {
		if !slices.ContainsFunc(m.Servers, func(row exposure.ServerRow) bool { return row.Name == name }) {
			m.Servers = append(m.Servers, exposure.ServerRow{Name: name, State: unused, Transport: status.ByCluster})
		}
	}
	return m
}

// conceal removes the details that are not for clients that only use tools: processes, errors, keys, and servers
// that this router does not use.
func conceal(m *MeshNode) {
	m.Servers = slices.DeleteFunc(m.Servers, func(row exposure.ServerRow) bool { return row.State == unused })
	for i := range m.Servers {
		row := &m.Servers[i]
		row.PID, row.Restarts, row.LastError, row.Several = 0, 0, "", ""
	}
	if m.MeshPeer != nil {
		m.Key, m.Problem = "", ""
	}
}

// A Router has servers and their tools, as [adapter.Router] does.
type Router interface {
	catalog.Source

	// Classifier sorts texts into categories.
	Classifier() *classify.Classifier

	// Nodes returns the nodes of the cluster, this one first; nil without a cluster.
	Nodes() []clusternode.Info
}

// health answers with the state of the router; with the status alone unless it is
// public: other requests need no token.
func (b *Backends) health(public bool) []byte {
	if !public {
		return []byte(`{"status":"ok"}` + "\n")
	}
	snapshot := b.Whole.Snapshot()
	tools := len(snapshot.Tools())
	return append(wire.Marshal(struct {
		Status string `json:"status"`
		classify.Health
		IndexSize int `json:"index_size"` // tools, prompts, resources and templates that can be found
		Servers   int `json:"servers"`
		Tools     int `json:"tools"`
	}{
		"ok", b.Whole.Classifier().Health(), tools + len(snapshot.Prompts()) + len(snapshot.Resources()) + len(snapshot.Templates()),
		len(b.Whole.Servers()), tools,
	}), '\n')
}
