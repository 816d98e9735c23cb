package exposure

import "github.com/mcp-metarouter/metarouter/internal/status"

// A Row is a server's state as JSON.
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
	Repairs         string `json:"repairs,omitempty"` // its mistakes that other clients may not understand, and their repairs
}

// ServerRows returns the rows of the servers, never nil.
func ServerRows(servers []status.Server) []ServerRow {
	rows := make([]ServerRow, len(servers))
	for i, s := range servers {
		rows[i] = ServerRow{
			Name: s.Name, State: string(s.State), Transport: s.Transport, Era: s.Era, ProtocolVersion: s.ProtocolVersion, Tools: s.Tools, PID: s.PID,
			Restarts: s.Restarts, LastError: s.LastError, Several: s.Several(), Node: s.Node(), Repairs: s.Tolerated(),
		}
	}
	return rows
}
