package selector

import (
	"encoding/json"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
)

// A Result is the answer to a Call.
type Result struct {
	// JSON is the CallToolResult: the server's own bytes, with our keys added to
	// _meta.
	JSON    json.RawMessage
	IsError bool

	// Limit is how much of its text the client is to get at once, in tokens; 0 is
	// all.
	Limit int

	// Tool is the one that answered: another one than the Call's where that could
	// not. nil if none did.
	Tool *registry.NormalizedTool

	// Mismatch is a sentence for each place where the arguments do not fit the tool's
	// schema, if nothing was called because of that.
	Mismatch []string

	// Err is why no tool answered though the arguments fit, nil otherwise. It wraps
	// [session.ErrNotSent] if nothing was called, or nothing that could have had an
	// effect. JSON says the same to a client.
	Err error
}

// Text returns the texts of the result's content, a line end between them.
func (r Result) Text() string {
	var content []struct{ Text string }
	if json.Unmarshal(wire.Member(r.JSON, "content"), &content) != nil {
		return ""
	}
	var texts []string
	for _, part := range content {
		if part.Text != "" {
			texts = append(texts, part.Text)
		}
	}
	return strings.Join(texts, "\n")
}

// Structured returns the result's structuredContent as the server sent it, nil if
// there is none.
func (r Result) Structured() json.RawMessage { return wire.Member(r.JSON, "structuredContent") }

// Meta returns what there is to know of the execution, the result's _meta: among
// others trace_id, server, degraded, attempts and latency_ms.
func (r Result) Meta() json.RawMessage { return wire.Member(r.JSON, "_meta") }
