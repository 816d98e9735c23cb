// Package clusternode has the values that a router exchanges with its node in a cluster, the node's key, and the lock
// that says which of its routers shares.
package clusternode

import (
	"encoding/json"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/session"
)

// An Offer is a server of this router with its definitions, for other nodes.
type Offer struct {
	Info    session.Info
	Terms   Terms
	Service string // of its entry; "" without

	// The definitions as clients of this router see them, after filters and renaming.
	Tools, Prompts, Resources, Templates, Skills []json.RawMessage
}

// Terms are how calls of a server are made.
type Terms struct {
	Timeout       time.Duration `json:"timeout,omitempty"` // 0 is no limit
	MaxConcurrent int           `json:"max_concurrent,omitempty"`
	Validate      string        `json:"validate,omitempty"` // "on", "warn" or "off"
	Retry         string        `json:"retry,omitempty"`    // "hints", "never" or "always"
	Asks          bool          `json:"asks,omitempty"`     // it asks its clients questions
}

// NameAt returns the name of a principal at another node, as people see it here. It may be "" there.
func NameAt(name, node string) string {
	if name == "" {
		return node
	}
	return name + "@" + node
}
