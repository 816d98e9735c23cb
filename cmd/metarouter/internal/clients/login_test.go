package clients

import (
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestMayNeedLogin(t *testing.T) {
	for entry, want := range map[string]bool{
		`{"url": "https://mcp.example.org/sse"}`:                                             true,
		`{"url": "https://example.org/mcp", "headers": {"Authorization": "Bearer ${T:-t}"}}`: false,
		`{"url": "http://127.0.0.1:80/mcp"}`:                                                 false,
		`{"command": "npx", "args": ["-y", "mcp-remote", "https://mcp.example.org/sse"]}`:    false,
	} {
		read, err := readExpanded("f", []byte(`{"mcpServers": {"s": `+entry+`}}`))
		expect.OK(t, err)
		expect.Equal(t, MayNeedLogin(read.Servers[0]), want, "%s", entry)
	}
}
