package execute

import (
	"encoding/json"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
)

// A Result is the answer to a Call.
type Result struct {
	// JSON is the CallToolResult: the server's own bytes, with our keys added to _meta.
	JSON    json.RawMessage
	IsError bool

	// Limit is how much of its text the client gets at once, in tokens; 0 is all.
	Limit int

	// Tool is the tool that answered: a stand-in if the Call's could not. nil if no tool answered.
	Tool *registry.NormalizedTool

	// Mismatch is a sentence for each place where the arguments do not fit the tool's schema, if the tool was not called because of that.
	Mismatch []string

	// Err is why no tool answered although the arguments fit, nil otherwise. It wraps
	// [session.ErrNotSent] if no call had an effect. JSON says the same to a client.
	Err error
}

// Text returns the texts of the result's content, separated by line ends.
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

// Structured returns the result's structuredContent as the server sent it, nil without.
func (r Result) Structured() json.RawMessage { return wire.Member(r.JSON, "structuredContent") }

// Meta returns the result's _meta, which says how the result came about: among others trace_id, server, degraded, attempts and latency_ms.
func (r Result) Meta() json.RawMessage { return wire.Member(r.JSON, "_meta") }
