package config_test

import (
	"fmt"

	"github.com/mcp-metarouter/metarouter/config"
)

// A program reads a text, and shows the servers and the mistakes. A mistake concerns its own server
// only.
func Example() {
	text := `{
  // Claude Code's file, with comments
  "mcpServers": {
    "files": { "command": "npx", "args": ["-y", "@modelcontextprotocol/server-filesystem", "/srv"], "timeout": "30s" },
    "search": { "url": "search.example.com" },
  },
}`
	c, err := config.ReadText("/project/.mcp.json", []byte(text))
	if err != nil {
		fmt.Println(err) // with the file, the line and the column
		return
	}
	for _, s := range c.Servers {
		fmt.Println(s.Name, s.Transport, s.Timeout, s.Misconfigured != "")
	}
	for _, p := range c.Problems {
		fmt.Printf("%d:%d %s: %s\n", p.Line, p.Column, p.Severity, p.Message)
	}
	// Output:
	// files stdio 30s false
	// search auto 5m0s true
	// 5:5 error: the url must be a whole URL; write "https://host/path"
}
