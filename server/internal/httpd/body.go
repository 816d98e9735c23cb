package httpd

import (
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
)

// parseBody is [conversation.Parse] for a message that may have many lines.
func parseBody(body []byte) (wire.Message, error) {
	m, err := conversation.Parse(body)
	if err == nil {
		oneLine(body)
	}
	return m, err
}

// oneLine makes valid JSON one line, since that is what messages are elsewhere.
func oneLine(b []byte) {
	for i, c := range b {
		if c == '\n' || c == '\r' {
			b[i] = ' '
		}
	}
}
