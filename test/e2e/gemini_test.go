//go:build linux

package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// testGemini uses Gemini's command line with the router.
func testGemini(t *testing.T, gemini []string) {
	t.Parallel()
	newGemini := func(t *testing.T, mode string, turns ...turn) (*user, *model) {
		m := playModel(t, turns...)
		u := newUser(t, gemini, mode, "GOOGLE_GEMINI_BASE_URL="+m.url, "GEMINI_API_KEY=none",
			"GEMINI_CLI_TRUST_WORKSPACE=true", "GEMINI_CLI_NO_RELAUNCH=true")
		settings := filepath.Join(u.home, ".gemini", "settings.json")
		expect.OK(t, os.MkdirAll(filepath.Dir(settings), 0o700))
		expect.OK(t, writeFile(settings, `{"security": {"auth": {"selectedType": "gemini-api-key"}}} // chosen at the first start`))
		return u, m
	}
	connected := func(t *testing.T, u *user) {
		mcptest.WaitFor(t, "gemini mcp list to say Connected", func() bool { // it waits 5 s for a server
			out := u.use("mcp", "list")
			t.Logf("%s", out)
			return strings.Contains(out, "- Connected")
		})
	}

	says := func(t *testing.T, u *user, want string) {
		// Another model than a named one is chosen by a model.
		expect.Contains(t, u.use("--model", "gemini-2.5-flash", "--yolo", "-p", "say hello"), "\n"+want+"\n", "the output of the session")
	}

	// The entry that install writes works. The model finds a tool and calls it.
	t.Run("search", func(t *testing.T) {
		u, m := newGemini(t, "search",
			func(request) move {
				return move{tool: "mcp_metarouter_find_tools", arguments: map[string]any{"query": "the process id of this server"}}
			},
			func(r request) move {
				expect.Contains(t, r.result, `"work:pid"`, "find_tools answers")
				return move{tool: "mcp_metarouter_call_tool", arguments: map[string]any{
					"tool": "work:echo", "arguments": map[string]any{"message": "hello"},
					"wait_for_previous": true, // which Gemini adds to the schema of every tool
				}}
			},
			lastWord)
		u.run(metarouter, "install", "gemini", "--write")
		connected(t, u)
		says(t, u, `{"message":"hello"}`)
		m.asked()
	})

	// The router is behind HTTP.
	t.Run("direct", func(t *testing.T) {
		const echo = "mcp_metarouter_work__echo"
		u, m := newGemini(t, "direct",
			func(request) move {
				return move{tool: echo, arguments: map[string]any{"message": "hello"}}
			},
			lastWord)
		url, _ := prepare(t, entries{"work": fake("-tools", "echo,pid")}, map[string]any{"mode": "direct", "listWait": "60s"}).serveHTTP()
		u.use("mcp", "add", "--scope", "user", "--transport", "http", "metarouter", url)
		connected(t, u)
		says(t, u, `{"message":"hello"}`)
		if first := m.asked()[0]; !slices.Contains(first.tools, echo) {
			t.Errorf("the model is offered %q", first.tools)
		}
	})
}
