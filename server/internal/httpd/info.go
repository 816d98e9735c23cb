package httpd

import (
	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/internal/classify"
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
	Problem         string `json:"problem,omitempty"` // the same in plain words, for commands
	Several         string `json:"several,omitempty"` // which processes it has, and why, if it has several
	Node            string `json:"node,omitempty"`    // the node that has it, if it is another one
	Repairs         string `json:"repairs,omitempty"` // what it does that other clients may not understand, and what was repaired
}

// ServerRows returns the rows of the servers, never nil.
func ServerRows(servers []adapter.ServerInfo) []ServerRow {
	rows := make([]ServerRow, len(servers))
	for i, s := range servers {
		rows[i] = ServerRow{
			Name: s.Name, State: string(s.State), Transport: s.Transport, Era: s.Era, ProtocolVersion: s.ProtocolVersion, Tools: s.Tools, PID: s.PID,
			Restarts: s.Restarts, LastError: s.LastError, Several: s.Several(), Node: s.Node(), Repairs: s.Tolerated(),
		}
	}
	return rows
}

// A Router has servers and their tools, as [adapter.Parts] does.
type Router interface {
	// Snapshot returns the catalog as it is now. It does not block.
	Snapshot() *registry.Snapshot

	// Servers returns the state of each server of the configuration.
	Servers() []adapter.ServerInfo

	// Classifier sorts texts into categories.
	Classifier() *classify.Classifier

	// Nodes returns the nodes of the cluster, this one first; nil without a cluster.
	Nodes() []adapter.NodeInfo
}

// info answers /health and /v1/mesh_scan.
type info struct {
	*Backends
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
