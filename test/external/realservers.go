package external

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/internal/protocol"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// A RealServer is a published server in testdata/npm: an entry of a configuration, and one
// call that changes nothing and has the same answer each time, without a network and
// without a browser.
type RealServer struct {
	Name    string
	Command string
	Args    []string
	Env     map[string]string // beyond the variables that every server gets

	Tools  int  // shown to a client without capabilities
	Modern bool // it answers server/discover
	Call   Call
	Fails  bool // Call is answered with isError, since there is no browser
}

// A Call is a tool and its arguments.
type Call struct {
	Tool      string
	Arguments json.RawMessage
}

// RealServers returns the seven servers of testdata/npm. They read and write only in dir, in
// which RealServers creates the file hello.txt.
func RealServers(t testing.TB, dir string) []RealServer {
	t.Helper()
	node, modules := Node22(t), NPM(t)
	hello := filepath.Join(dir, "hello.txt")
	if err := os.WriteFile(hello, []byte("Hello, wörld\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	noBrowser := filepath.Join(dir, "no-browser")
	start := func(script string, args ...string) []string {
		return append([]string{filepath.Join(modules, filepath.FromSlash(script))}, args...)
	}
	return []RealServer{{
		Name: "everything", Command: node,
		Args:  start("@modelcontextprotocol/server-everything/dist/index.js"),
		Tools: 13,
		Call:  Call{"echo", json.RawMessage(`{"message":"hello"}`)},
	}, {
		Name: "filesystem", Command: node,
		Args:  start("@modelcontextprotocol/server-filesystem/dist/index.js", dir),
		Tools: 14,
		Call:  Call{"read_text_file", protocol.Encode(map[string]string{"path": hello})},
	}, {
		Name: "memory", Command: node,
		Args:  start("@modelcontextprotocol/server-memory/dist/index.js"),
		Env:   map[string]string{"MEMORY_FILE_PATH": filepath.Join(dir, "memory.jsonl")},
		Tools: 9,
		Call:  Call{"read_graph", json.RawMessage(`{}`)},
	}, {
		Name: "sequential-thinking", Command: node,
		Args:  start("@modelcontextprotocol/server-sequential-thinking/dist/index.js"),
		Env:   map[string]string{"DISABLE_THOUGHT_LOGGING": "true"},
		Tools: 1,
		Call: Call{"sequentialthinking", json.RawMessage(
			`{"thought":"one","nextThoughtNeeded":false,"thoughtNumber":1,"totalThoughts":1}`)},
	}, {
		Name: "playwright", Command: node,
		Args:  start("@playwright/mcp/cli.js", "--headless", "--isolated", "--executable-path", noBrowser, "--output-dir", dir),
		Tools: 25,
		Call:  Call{"browser_tabs", json.RawMessage(`{"action":"list"}`)},
		Fails: true,
	}, {
		Name: "chrome-devtools", Command: node,
		Args: start("chrome-devtools-mcp/build/src/bin/chrome-devtools-mcp.js", "--headless", "--isolated",
			"--executablePath", noBrowser, "--no-usage-statistics", "--no-performance-crux"),
		Env:   map[string]string{"CHROME_DEVTOOLS_MCP_NO_UPDATE_CHECKS": "1"},
		Tools: 32,
		Call:  Call{"list_pages", json.RawMessage(`{}`)},
		Fails: true,
	}, {
		Name: "context7", Command: node,
		Args: start("@upstash/context7-mcp/dist/index.js"),
		// Nothing listens on port 1.
		Env:    map[string]string{"CONTEXT7_API_URL": "http://127.0.0.1:1"},
		Tools:  2,
		Modern: true,
		Call:   Call{"resolve-library-id", json.RawMessage(`{"query":"routing","libraryName":"react"}`)}, // the answer is "fetch failed", without isError
	}}
}

// Start starts the server in dir and returns a direct client of it.
func (s RealServer) Start(t testing.TB, dir string) *mcptest.Client {
	t.Helper()
	env := os.Environ()
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		env = append(env, name+"="+s.Env[name])
	}
	return mcptest.Start(t, s.Command, s.Args, dir, env)
}
