//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/internal/protocol"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
	"github.com/mcp-metarouter/metarouter/test/natsserver"
)

// TestClusterCells does the checks of TestCells with the server on another node of a cluster.
func TestClusterCells(t *testing.T) {
	t.Parallel()
	hub := natsserver.Start(t)
	for _, clientEra := range []string{"legacy", "modern"} {
		for _, serverEra := range []string{"legacy", "modern"} {
			for _, face := range []string{"stdio", "http"} {
				name := fmt.Sprintf("%s client by %s of %s server", clientEra, face, serverEra)
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					newClusterCell(t, hub.URL(), face, clientEra, serverEra).check(t)
				})
			}
		}
	}
}

// newClusterCell starts a node that has a fake server with everything, and opens a session with a
// gateway that uses it. Each cell is a cluster of its own.
func newClusterCell(t *testing.T, hub, face, clientEra, serverEra string) *cell {
	c := &cell{way: "router", elsewhere: true, transport: face, clientEra: clientEra, serverEra: serverEra, trace: filepath.Join(t.TempDir(), "trace")}
	flags := append(slices.Clone(everything), "-era", serverEra, "-trace", c.trace)
	gateway := prepareCluster(t, hub, entries{"fake": fake(flags...)})
	if face == "http" {
		url, _ := gateway.serveHTTP("--mode", "direct", "--names", "bare")
		c.openHTTP(t, url)
	} else {
		c.openStdio(t, gateway.start("--mode", "direct", "--names", "bare"))
	}
	awaitTool(t, c.session, "echo")
	return c
}

var clusters atomic.Int64 // counts them, so that each has a name of its own

// prepareCluster starts a node that shares the servers, and returns the setup of a gateway that
// uses them.
func prepareCluster(t *testing.T, hub string, servers entries) (gateway *setup) {
	t.Helper()
	gateway, far := prepare(t, nil, nil), prepare(t, nil, nil)
	name := fmt.Sprintf("cells-%d", clusters.Add(1))
	var keys []string
	for _, s := range []*setup{gateway, far} {
		s.home = filepath.Join(s.dir, "home")
		key, errs, code := s.run("nodes", "key")
		if code != 0 {
			t.Fatalf("nodes key: %s", errs)
		}
		keys = append(keys, strings.TrimSpace(key))
	}
	cluster := func(node string) map[string]any {
		return map[string]any{"cluster": map[string]any{
			"urls": []string{hub}, "name": name, "node": node,
			"share": []string{"*"}, "use": []string{"*"}, "trusted": keys,
		}}
	}
	far.write(servers, cluster("far"))
	gateway.write(nil, cluster("near"))
	far.serveHTTP()
	return gateway
}

// awaitTool waits until the list of tools has the tool.
func awaitTool(t *testing.T, s *session, tool string) {
	t.Helper()
	mcptest.WaitFor(t, "the tool "+tool, func() bool {
		names, err := mcptest.ToolNames(within(t), s)
		if err != nil {
			t.Fatal(err)
		}
		return slices.Contains(names, tool)
	})
}

// A task of a server on another node is polled, updated and cancelled there.
func TestClusterTasks(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	hub := natsserver.Start(t)
	gateway := prepareCluster(t, hub.URL(), entries{"fake": fake("-tools", "task,echo", "-era", "modern")})
	url, _ := gateway.serveHTTP("--mode", "direct", "--names", "bare")
	raw := mcptest.NewHTTPClient(t, url)
	s := open(t, raw, raw.Notifications, "modern", `{"extensions":{"`+protocol.KeyTasks+`":{}}}`, nil)
	awaitTool(t, s, "task")
	begin := func() string {
		t.Helper()
		var begun struct{ ResultType, TaskID string }
		raw, err := s.call(within(t), "task", map[string]any{})
		if err != nil || json.Unmarshal(raw, &begun) != nil || begun.ResultType != "task" || begun.TaskID == "" {
			t.Fatalf("the call was answered %s, %v", raw, err)
		}
		return begun.TaskID
	}
	ask := func(method, id, want string) {
		t.Helper()
		if got, err := s.Request(within(t), method, map[string]any{"taskId": id}); err != nil || !strings.Contains(string(got), want) {
			t.Errorf("%s was answered %s, %v, want %s", method, got, err, want)
		}
	}
	first, second := begin(), begin()
	ask("tasks/get", first, `"status":"working"`)
	ask("tasks/update", first, `{`)
	ask("tasks/get", first, "done as a task")
	ask("tasks/cancel", second, `{`)
	ask("tasks/get", second, `"status":"cancelled"`)
}
