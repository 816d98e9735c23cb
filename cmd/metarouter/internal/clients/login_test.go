package clients

import (
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestMayNeedLogin(t *testing.T) {
	for entry, want := range map[string]bool{
		`{"url": "https://mcp.linear.app/sse"}`:                                                 true,
		`{"type": "http", "url": "https://MCP.Notion.com:443/mcp"}`:                             true,
		`{"url": "https://example.org/mcp", "oauth": {"clientId": "x"}}`:                        true,
		`{"url": "https://example.org/mcp"}`:                                                    false,
		`{"url": "https://mcp.linear.app.example.org/mcp"}`:                                     false,
		`{"url": "https://mcp.linear.app/sse", "headers": {"Authorization": "Bearer ${T:-t}"}}`: false,
		`{"command": "npx", "args": ["-y", "mcp-remote", "https://mcp.linear.app/sse"]}`:        false,
	} {
		read, err := readExpanded("f", []byte(`{"mcpServers": {"s": `+entry+`}}`))
		expect.OK(t, err)
		expect.Equal(t, MayNeedLogin(read.Servers[0]), want, "%s", entry)
	}
}
