//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// A client that defers tools finds one by what it does, and calls it by the name in the answer, which is the name of the list.
func TestFindAndLoad(t *testing.T) {
	t.Parallel()
	s := prepare(t, entries{"work": fake("-tools", "echo,pid")}, map[string]any{"toolBudget": 1})
	c := s.serve("--mode", "direct", "--find-tools")
	listed := names(t, c)
	expect.List(t, listed, []string{"find_tools", "work__echo", "work__pid"}, "tools")
	var found struct{ Tools []struct{ Name string } }
	expect.OK(t, json.Unmarshal([]byte(mustCall(t, c, "find_tools", `{"query":"the process id of this server"}`).text()), &found))
	expect.Equal(t, found.Tools[0].Name, "work__pid", "the best tool")
	mustCall(t, c, found.Tools[0].Name, "{}")
}

// Four clients with an entry for each server share one process of each, and keep it when one of them is killed.
func TestEntryForEachServer(t *testing.T) {
	t.Parallel()
	s := prepare(t, entries{"a": fake("-tools", "pid"), "b": fake("-tools", "pid")}, nil)
	started := make(map[string][]string)
	var clients []*mcptest.Client
	for range 4 {
		for _, server := range []string{"a", "b"} {
			c := s.serve("--only", server)
			expect.List(t, names(t, c), []string{"pid"}, "tools of "+server)
			if pid := mustCall(t, c, "pid", "{}").text(); !slices.Contains(started[server], pid) {
				started[server] = append(started[server], pid)
			}
			clients = append(clients, c)
		}
	}
	clients[0].Kill()
	for i, c := range clients[1:] {
		server := []string{"b", "a"}[i%2]
		expect.Equal(t, fmt.Sprint(started[server]), fmt.Sprint([]string{mustCall(t, c, "pid", "{}").text()}), "processes of "+server)
	}
}
