package httpd

import (
	"math"
	"net/http"
	"time"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/classify"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
)

// A ServerRow is a server's state as JSON.
type ServerRow struct {
	Name            string `json:"name"`
	State           string `json:"state"`
	Transport       string `json:"transport"`
	Era             string `json:"era"`
	ProtocolVersion string `json:"protocol_version"`
	Tools           int    `json:"tools"`
	PID             int    `json:"pid"`
	Restarts        int    `json:"restarts"`
	LastError       string `json:"last_error"`
	Several         string `json:"several,omitempty"` // which processes it has, and why, if it has several
}

// ServerRows returns the rows of the servers, never nil.
func ServerRows(servers []adapter.ServerInfo) []ServerRow {
	rows := make([]ServerRow, len(servers))
	for i, s := range servers {
		rows[i] = ServerRow{s.Name, string(s.State), s.Transport, s.Era, s.ProtocolVersion, s.Tools, s.PID, s.Restarts, s.LastError, s.Several()}
	}
	return rows
}

// A MeshNode is a router as JSON. There is one, this one:
//
//	{"nodes": [{
//	  "node_id": "box",               // as in the _meta of results
//	  "version": "1.4.0", "status": "ok", "mode": "search",
//	  "uptime_seconds": 93.4,
//	  "url": "http://127.0.0.1:8787/mcp", // the public URL, or as the client has called it
//	  "transports": ["streamable-http", "json-rpc", "rest"],
//	  "tools": 12,                    // of all servers
//	  "servers": [{"name", "state", "transport", "era", "protocol_version",
//	               "tools", "pid", "restarts", "last_error", "several"}]
//	}]}
type MeshNode struct {
	NodeID     string      `json:"node_id"`
	Version    string      `json:"version"`
	Status     string      `json:"status"`
	Mode       string      `json:"mode"`
	Uptime     float64     `json:"uptime_seconds"`
	URL        string      `json:"url"`
	Transports []string    `json:"transports"`
	Tools      int         `json:"tools"`
	Servers    []ServerRow `json:"servers"`
}

// A Router has servers and their tools, as [adapter.Parts] does.
type Router interface {
	// Snapshot returns the catalog as it is now. It does not block.
	Snapshot() *registry.Snapshot

	// Servers returns the state of each server of the configuration.
	Servers() []adapter.ServerInfo

	// Classifier sorts texts into categories.
	Classifier() *classify.Classifier
}

// info answers /health and /v1/mesh_scan.
type info struct {
	*Backends
}

// meshScan answers with the nodes and the state of their servers: to an admin without a profile
// of all, to others of those that the profile has.
func (i *info) meshScan(x *exchange) {
	scheme := "http"
	if x.r.TLS != nil {
		scheme = "https"
	}
	router := x.backend.Router
	if x.principal.Admin && x.principal.Profile == "" {
		router = i.Whole
	}
	url := scheme + "://" + x.r.Host + "/mcp"
	if x.rules.publicURL != "" {
		url = x.rules.publicURL + "/mcp"
	}
	node := MeshNode{
		NodeID: i.Node, Version: i.Version, Status: statusOf(router.Classifier().Health()), Mode: x.backend.Mode(),
		Uptime: math.Round(time.Since(i.Started).Seconds()*1000) / 1000,
		URL:    url, Transports: []string{"streamable-http", "json-rpc", "rest"},
		Tools: len(router.Snapshot().Tools()), Servers: ServerRows(router.Servers()),
	}
	if !x.principal.Admin { // processes and errors are not for those who only use tools
		for i := range node.Servers {
			row := &node.Servers[i]
			row.PID, row.Restarts, row.LastError, row.Several = 0, 0, "", ""
		}
	}
	x.json(http.StatusOK, append(wire.Marshal(map[string][]MeshNode{"nodes": {node}}), '\n'))
}

// statusOf returns "ok", or "degraded" while the outside classifier is down and the
// built-in one is used instead.
func statusOf(classification classify.Health) string {
	if classification.Degraded() {
		return "degraded"
	}
	return "ok"
}

// health answers with the state of the router; with the status alone unless it is
// public: other requests need no token.
func (i *info) health(public bool) []byte {
	classification := i.Whole.Classifier().Health()
	status := statusOf(classification)
	if !public {
		return []byte(`{"status":"` + status + `"}` + "\n")
	}
	snapshot := i.Whole.Snapshot()
	tools := len(snapshot.Tools())
	return append(wire.Marshal(struct {
		Status string `json:"status"`
		classify.Health
		IndexSize int `json:"index_size"` // tools, prompts, resources and templates that can be found
		Servers   int `json:"servers"`
		Tools     int `json:"tools"`
	}{
		status, classification, tools + len(snapshot.Prompts()) + len(snapshot.Resources()) + len(snapshot.Templates()),
		len(i.Whole.Servers()), tools,
	}), '\n')
}
