package content

import (
	"encoding/json"

	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// A Block is a block of content with the type "text".
type Block struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

// Text returns a CallToolResult with one text, and with the structured content
// unless that is nil.
func Text(text string, structured json.RawMessage, failed bool) json.RawMessage {
	return wire.Marshal(struct {
		Content    [1]Block        `json:"content"`
		Structured json.RawMessage `json:"structuredContent,omitempty"`
		IsError    bool            `json:"isError,omitempty"`
	}{[1]Block{{"text", text}}, structured, failed})
}
