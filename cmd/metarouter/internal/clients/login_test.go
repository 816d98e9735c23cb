package clients

import (
	"slices"
	"testing"
)

// Import names the servers that may need a login by OAuth.
func TestMayNeedLogin(t *testing.T) {
	for entry, want := range map[string]bool{
		`{"url": "https://mcp.linear.app/sse"}`:                                                 true,
		`{"type": "http", "url": "https://MCP.Notion.com:443/mcp"}`:                             true,
		`{"url": "https://example.org/mcp", "oauth": {"clientId": "x"}}`:                        true,
		`{"httpUrl": "https://example.org/mcp", "authProviderType": "google_credentials"}`:      true,
		`{"url": "https://example.org/mcp"}`:                                                    false,
		`{"url": "https://mcp.linear.app.example.org/mcp"}`:                                     false,
		`{"url": "https://mcp.linear.app/sse", "headers": {"Authorization": "Bearer ${T:-t}"}}`: false,
		`{"command": "npx", "args": ["-y", "mcp-remote", "https://mcp.linear.app/sse"]}`:        false,
	} {
		data := []byte(`{"mcpServers": {"s": ` + entry + `}}`)
		c, _ := Find("cursor")
		done, err := Import(c, []Source{{Path: "theirs.json", Data: data, keys: c.keys}}, "ours.json", nil, Ours{}, KeepOurs)
		if got := slices.Equal(done.Login, []string{"s"}); err != nil || got != want {
			t.Errorf("%s: %v %v, want %v", entry, done.Login, err, want)
		}
		read, err := readExpanded("f", data)
		if got := MayNeedLogin(entry, read.Servers[0]); err != nil || got != want {
			t.Errorf("%s: %v %v, want %v", entry, got, err, want)
		}
	}
}
