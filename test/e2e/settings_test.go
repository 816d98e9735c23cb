//go:build unix

package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// Edits of the "metarouter" object take effect while clients are connected, over stdio and
// without a restart of servers.
func TestSettingsAreLive(t *testing.T) {
	t.Parallel()
	servers := entries{"s": fake("-tools", "pid,sleep,echo")}
	s := prepare(t, servers, map[string]any{"mode": "direct"})
	c := s.serve()
	pid := mustCall(t, c, "s__pid", "{}").text()
	search := []string{"call_read_only_tool", "call_tool", "describe_tools", "find_tools", "route_task"}
	listed := func(own map[string]any, want ...string) {
		t.Helper()
		s.write(servers, own)
		deadline := time.After(2 * time.Minute)
		for {
			got := names(t, c)
			slices.Sort(got)
			slices.Sort(want)
			if slices.Equal(got, want) {
				return
			}
			select {
			case <-c.Notifications:
			case <-deadline:
				t.Fatalf("with %v: listed %v, want %v\n%s", own, got, want, c.Stderr())
			}
		}
	}
	listed(map[string]any{"mode": "direct", "names": "bare"}, "pid", "sleep", "echo")
	listed(map[string]any{"mode": "direct", "separator": "."}, "s.pid", "s.sleep", "s.echo")
	listed(map[string]any{"mode": "search"}, search...)
	listed(map[string]any{"mode": "search", "pinned": []string{"s:echo"}}, append(slices.Clone(search), "s__echo")...)
	listed(map[string]any{"mode": "auto"}, "s__pid", "s__sleep", "s__echo")
	listed(map[string]any{"mode": "auto", "toolBudget": 1}, search...)
	listed(map[string]any{"mode": "direct", "maxResultTokens": 100}, "s__pid", "s__sleep", "s__echo", "read_result")
	listed(map[string]any{"mode": "direct", "classification": map[string]any{"categories": []any{map[string]any{"name": "x"}}}},
		"s__pid", "s__sleep", "s__echo", "list_categories", "classify_text")

	s.write(servers, map[string]any{"mode": "direct", "timeout": "50ms"})
	mcptest.WaitFor(t, "the time-out", func() bool {
		r := call(t, c, "s__sleep", `{"ms":200}`)
		return r.IsError && strings.Contains(r.text(), "50ms")
	})
	s.write(servers, map[string]any{"mode": "direct", "validate": "off"})
	mcptest.WaitFor(t, "the end of validation", func() bool {
		r := call(t, c, "s__sleep", `{"ms":"1"}`)
		return !strings.Contains(r.text(), "do not fit")
	})

	log := filepath.Join(s.dir, "access.log")
	s.write(servers, map[string]any{"mode": "direct", "accessLog": log})
	mcptest.WaitFor(t, "the access log", func() bool {
		mustCall(t, c, "s__echo", `{"text":"x"}`)
		text, _ := os.ReadFile(log)
		return strings.Contains(string(text), `"echo"`)
	})
	expect.Equal(t, mustCall(t, c, "s__pid", "{}").text(), pid, "an edit of the metarouter object restarted the server")

	s.write(servers, map[string]any{"mode": "direct", "http": map[string]any{"addr": "127.0.0.1:1", "maxHeader": "1KiB"}})
	mcptest.WaitFor(t, "the keys that wait for a restart", func() bool {
		return strings.Contains(c.Stderr(), `next start`) && strings.Contains(c.Stderr(), `["http.addr", "http.maxHeader"]`)
	})
	if out, _, code := s.run("check"); code != 0 || !strings.Contains(out, "next start: http.addr, http.maxHeader") {
		t.Errorf("check does not name them: %s", out)
	}
}
