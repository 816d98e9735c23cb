package server

import (
	"net/http"
	"time"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/internal/wire"
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
}

// ServerRows returns the rows of the servers, never nil.
func ServerRows(servers []adapter.ServerInfo) []ServerRow {
	rows := make([]ServerRow, len(servers))
	for i, s := range servers {
		rows[i] = ServerRow{s.Name, string(s.State), s.Transport, s.Era, s.ProtocolVersion, s.Tools, s.PID, s.Restarts, s.LastError}
	}
	return rows
}

// A meshNode is a router as JSON. There is one, this one:
//
//	{"nodes": [{
//	  "node_id": "box",               // as in the _meta of results
//	  "version": "1.4.0", "status": "ok", "mode": "search",
//	  "uptime_seconds": 93.4,
//	  "url": "http://127.0.0.1:8787/mcp", // as the client has called it
//	  "transports": ["streamable-http", "json-rpc", "rest"],
//	  "tools": 12,                    // of all servers
//	  "servers": [{"name", "state", "transport", "era", "protocol_version",
//	               "tools", "pid", "restarts", "last_error"}]
//	}]}
type meshNode struct {
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

// meshScan says which nodes there are, and how their servers are.
func (x *exchange) meshScan() {
	scheme := "http"
	if x.r.TLS != nil {
		scheme = "https"
	}
	s := x.h.server
	node := meshNode{
		NodeID: s.node, Version: s.opts.Version, Status: statusOf(s.router.Classifier().Health()), Mode: s.Mode(), Uptime: round(time.Since(s.born).Seconds()),
		URL: scheme + "://" + x.r.Host + "/mcp", Transports: []string{"streamable-http", "json-rpc", "rest"},
		Tools: len(s.router.Snapshot().Tools()), Servers: ServerRows(s.router.Servers()),
	}
	x.json(http.StatusOK, append(wire.Marshal(map[string][]meshNode{"nodes": {node}}), '\n'))
}
