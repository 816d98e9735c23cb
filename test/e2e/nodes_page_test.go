//go:build unix

package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
	"github.com/mcp-metarouter/metarouter/test/natsserver"
)

// keyed returns a setup with a home and a node's key of its own, and the public key.
func keyed(t *testing.T, servers entries) (s *setup, key string) {
	t.Helper()
	s = prepare(t, servers, nil)
	s.home = t.TempDir()
	key, stderr, code := s.run("nodes", "key")
	if code != 0 {
		t.Fatalf("nodes key: %s", stderr)
	}
	return s, strings.TrimSpace(key)
}

// TestNodesPage looks at the page of a router in a cluster, in a browser: testdata/nodes.mjs says how.
func TestNodesPage(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	nats := natsserver.Start(t)
	servers := entries{"gpu": fake("-tools", "echo,pid"), "spare": fake("-tools", "echo")}
	desk, deskKey := keyed(t, entries{"own": fake("-tools", "echo")})
	box, boxKey := keyed(t, servers)
	rogue, rogueKey := keyed(t, entries{"github": fake("-tools", "echo")})
	desk.write(entries{"own": fake("-tools", "echo")}, inCluster(nats, "desk", map[string]any{"use": []string{"gpu@*"}, "trusted": []string{boxKey}}))
	box.write(servers, inCluster(nats, "box", map[string]any{"share": []string{"gpu", "spare"}, "trusted": []string{deskKey}}))
	rogue.write(entries{"github": fake("-tools", "echo")}, inCluster(nats, "rogue", map[string]any{"share": []string{"github"}, "trusted": []string{deskKey, boxKey}}))

	url, _ := desk.serveHTTP("--mode", "direct")
	_, running := box.serveHTTP()
	rogue.serveHTTP()
	awaitNodes(t, url, 3)
	runPage(t, "nodes.mjs", map[string]any{
		"url": strings.TrimSuffix(url, "/mcp"), "shots": t.TempDir(), "rogue": rogueKey, "box": running.Cmd.Process.Pid,
	})
}

// awaitNodes waits until a router says that its cluster has so many nodes, and servers on all trusted ones.
func awaitNodes(t *testing.T, url string, n int) {
	t.Helper()
	var last string
	defer func() {
		if t.Failed() {
			t.Log(last)
		}
	}()
	mcptest.WaitFor(t, "the nodes of the cluster", func() bool {
		var all struct {
			Nodes []struct {
				Self    bool
				Trusted bool
				Servers []json.RawMessage
			}
		}
		last = get(t, strings.TrimSuffix(url, "/mcp")+"/v1/mesh_scan")
		if err := json.Unmarshal([]byte(last), &all); err != nil {
			t.Fatalf("%s: %v", last, err)
		}
		for _, node := range all.Nodes {
			if len(node.Servers) == 0 && (node.Self || node.Trusted) {
				return false
			}
		}
		return len(all.Nodes) == n
	})
}
