//go:build linux

package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// testCodex uses Codex with the router. All tools are deferred, so the model loads find_tools before it finds a tool, and loads that one
// by its name.
func testCodex(t *testing.T, codex []string) {
	t.Parallel()
	load := func(name string) move {
		return move{tool: "tool_search", arguments: map[string]any{"query": name, "limit": 1}}
	}
	m := playModel(t,
		func(request) move { return load("find_tools") },
		func(r request) move {
			expect.Equal(t, r.result, "find_tools ", "tool_search answers")
			return move{tool: "mcp__metarouter.find_tools", arguments: map[string]any{"query": "return the arguments as text"}}
		},
		func(r request) move {
			expect.Contains(t, r.result, `"name":"work__echo"`, "find_tools answers")
			return load("work__echo")
		},
		func(r request) move {
			expect.Equal(t, r.result, "work__echo ", "tool_search answers")
			return move{tool: "mcp__metarouter.work__echo", arguments: map[string]any{"message": "hello"}}
		},
		lastWord)
	u := newUser(t, codex, "auto")
	u.write(entries{"work": fake("-tools", "echo,pid")}, map[string]any{"toolBudget": 1})
	lines := u.run(metarouter, "install", "codex")
	lines = lines[strings.Index(lines, "[mcp_servers."):strings.Index(lines, "metarouter writes nothing")]
	settings := filepath.Join(u.home, ".codex", "config.toml")
	expect.OK(t, os.MkdirAll(filepath.Dir(settings), 0o700))
	expect.OK(t, writeFile(settings, "model = \"gpt-5.5\"\nmodel_provider = \"played\"\n[model_providers.played]\nname = \"played\"\nwire_api = \"responses\"\nbase_url = \""+m.url+"/v1\"\n"+lines))
	out := u.use("exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "say hello")
	expect.Contains(t, out, "{\"message\":\"hello\"}", "the session ends with")
	if first := m.asked()[0].tools; !slices.Contains(first, "tool_search ") || slices.Contains(first, "namespace mcp__metarouter") {
		t.Errorf("the model is offered %q", first)
	}
}
