//go:build linux

package e2e

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// testClaude uses Claude Code with the router.
func testClaude(t *testing.T, claude []string) {
	t.Parallel()
	newClaude := func(t *testing.T, mode string, turns ...turn) (*user, *model) {
		m := playModel(t, turns...)
		return newUser(t, claude, mode, "ANTHROPIC_BASE_URL="+m.url, "ANTHROPIC_API_KEY=none",
			"MCP_CONNECTION_NONBLOCKING=0", "MCP_CONNECT_TIMEOUT_MS=50000"), m // or the model is asked after 2 s, with or without tools
	}
	connected := func(t *testing.T, u *user) {
		mcptest.WaitFor(t, "claude mcp list to say Connected", func() bool {
			out := u.use("mcp", "list")
			t.Logf("%s", out)
			return strings.Contains(out, "✔ Connected")
		})
	}

	// The entry that install writes works, and the session is one of the newest revision.
	t.Run("stdio", func(t *testing.T) {
		u, _ := newClaude(t, "auto")
		u.run(metarouter, "install", "claude-code", "--write")
		connected(t, u)
		expect.Contains(t, u.claudeLog(), `\"negotiatedProtocolVersion\":\"2026-07-28\"`, "Claude Code logs")
	})
	// The model sees the search tools at once, finds a tool and calls it.
	t.Run("search", func(t *testing.T) {
		u, m := newClaude(t, "search",
			func(request) move {
				return move{tool: "mcp__metarouter__find_tools", arguments: map[string]any{"query": "the process id of this server"}}
			},
			func(r request) move {
				expect.Contains(t, r.result, `"work:pid"`, "find_tools answers")
				return move{tool: "mcp__metarouter__call_tool", arguments: map[string]any{"tool": "work:echo", "arguments": map[string]any{"message": "hello"}}}
			},
			lastWord)
		u.run(metarouter, "install", "claude-code", "--write")
		out := u.use("-p", "say hello", "--allowedTools", "mcp__metarouter")
		expect.Equal(t, out, "{\"message\":\"hello\"}\n", "the output of the session")
		for _, tool := range []string{"find_tools", "describe_tools", "call_tool", "call_read_only_tool", "route_task"} {
			if first := m.asked()[0]; !slices.Contains(first.tools, "mcp__metarouter__"+tool) {
				t.Errorf("the model is not offered %s, but %q", tool, first.tools)
			}
		}
		u.quietLog()
	})

	// The model finds a tool, loads it by its name with the loader of Claude Code, and calls it.
	t.Run("load", func(t *testing.T) {
		u, m := newClaude(t, "auto",
			func(request) move {
				return move{tool: "mcp__metarouter__find_tools", arguments: map[string]any{"query": "return the arguments as text"}}
			},
			func(r request) move {
				expect.Contains(t, r.result, `"name":"work__echo"`, "find_tools answers")
				return move{tool: "ToolSearch", arguments: map[string]any{"query": "select:work__echo"}}
			},
			func(request) move {
				return move{tool: "mcp__metarouter__work__echo", arguments: map[string]any{"message": "hello"}}
			},
			lastWord)
		u.write(entries{"work": fake("-tools", "echo,pid")}, map[string]any{"toolBudget": 1})
		u.env = append(u.env, "ENABLE_TOOL_SEARCH=true")
		u.run(metarouter, "install", "claude-code", "--write")
		expect.Equal(t, u.use("-p", "say hello", "--allowedTools", "mcp__metarouter"), "{\"message\":\"hello\"}\n", "the output of the session")
		if first := m.asked()[0].tools; !slices.Contains(first, "mcp__metarouter__find_tools") || slices.Contains(first, "mcp__metarouter__work__echo") {
			t.Errorf("the model is offered %q", first)
		}
	})

	// A script with a call that a person has to approve. In print mode, Claude Code closes the question at once, and the
	// script ends with the calls that it made. A hook answers in the person's place.
	t.Run("script", func(t *testing.T) {
		run := func(request) move {
			return move{tool: "mcp__metarouter__run_script", arguments: map[string]any{"code": approvedScript}}
		}
		u, m := newClaude(t, "code", run, lastWord)
		u.write(entries{"work": fake("-tools", "echo,add")}, map[string]any{
			"mode": "code", "profiles": map[string]any{"default": map[string]any{"tools": map[string]any{"ask": []string{"add"}}}},
		})
		u.run(metarouter, "install", "claude-code", "--write")
		out := u.use("-p", "add it up", "--allowedTools", "mcp__metarouter")
		for _, want := range []string{"call work:add on line 3 needs approval", "closed the question", "No call succeeded that may change something."} {
			expect.Contains(t, out, want, "the output of the session")
		}
		for _, own := range []string{"find_tools", "describe_tools", "run_script", "read_result"} {
			if tools := m.asked()[0].tools; !slices.Contains(tools, "mcp__metarouter__"+own) {
				t.Errorf("the model is offered %q", tools)
			}
		}

		const yes = `{"hookSpecificOutput":{"hookEventName":"Elicitation","action":"accept","content":{}}}`
		asked := filepath.Join(u.home, "asked.json")
		hook, err := json.Marshal(map[string]any{"hooks": map[string]any{"Elicitation": []any{map[string]any{
			"hooks": []any{map[string]any{"type": "command", "command": "cat > " + asked + "; echo '" + yes + "'"}},
		}}}})
		expect.OK(t, err)
		m.play([]turn{run, lastWord, run, lastWord})
		out = u.use("-p", "add it up", "--allowedTools", "mcp__metarouter", "--settings", string(hook))
		if question, err := os.ReadFile(asked); err != nil || !strings.Contains(string(question), "line 3 of a script calls it") || !strings.HasPrefix(out, "one two ") {
			t.Errorf("the hook was asked %s, %v; the session ends with\n%s", question, err, out)
		}
	})

	// A server that the user adds during a session is there in the same session.
	t.Run("edit", func(t *testing.T) {
		const late = "mcp__metarouter__late__pid"
		call := move{tool: "mcp__metarouter__work__pid"}
		u, m := newClaude(t, "direct")
		turns := []turn{
			func(request) move { return call },
			func(request) move {
				u.write(entries{"work": fake("-tools", "pid"), "late": fake("-tools", "pid")}, map[string]any{"mode": "direct"})
				return call
			},
		}
		for range 500 { // the most calls until the new tool is there
			turns = append(turns, func(r request) move {
				if slices.Contains(r.tools, late) {
					return move{text: "it is there"}
				}
				return call
			})
		}
		m.play(turns)
		u.env = append(u.env, "ENABLE_TOOL_SEARCH=false")
		u.run(metarouter, "install", "claude-code", "--write")
		expect.Equal(t, u.use("-p", "wait for it", "--allowedTools", "mcp__metarouter"), "it is there\n", "the output of the session")
	})
}

// claudeLog returns what Claude Code logs of the router, with its stderr.
func (u *user) claudeLog() string {
	u.t.Helper()
	files, _ := filepath.Glob(filepath.Join(u.home, ".cache", "claude-cli-nodejs", "*", "mcp-logs-metarouter", "*.jsonl"))
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		expect.OK(u.t, err)
		all.Write(text)
	}
	return all.String()
}

// quietLog checks that the router warns of nothing.
func (u *user) quietLog() {
	u.t.Helper()
	log := u.claudeLog()
	if log == "" || strings.Contains(log, `\tWARN\t`) || strings.Contains(log, `\tERROR\t`) {
		u.t.Errorf("Claude Code logs\n%s", log)
	}
}
