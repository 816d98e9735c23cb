package server

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// clustered returns a router with a server of its own and one on another node.
func clustered() *fakeRouter {
	r := newFake(tool("a", "b"), tool("gpu@box", "draw"), tool("gpu@box", "see"))
	far := info("gpu@box", status.Ready, 2)
	far.Transport, far.LastError, far.Restarts = status.ByCluster, "hush", 4
	r.servers = []status.Server{info("a", status.Ready, 1), far}
	seen := time.Date(2026, 7, 28, 10, 0, 0, 0, time.UTC)
	r.nodes = []clusternode.Info{
		{Node: "desk", Key: "UDESK", Self: true, Trusted: true, Alive: true, Version: "1.2.3", Servers: []string{"a"}},
		{Node: "box", Key: "UBOX", Trusted: true, Alive: true, Version: "1.2.0", Servers: []string{"gpu", "disk"}, Latency: 0.4, LastSeen: seen},
		{Node: "old", Key: "UOLD", Trusted: true, LastSeen: seen, Problem: "its clock is off"},
		{Node: "desk", Key: "UROGUE", Alive: true, Servers: []string{"github"}},
	}
	return r
}

// meshOf returns what /v1/mesh_scan answers.
func meshOf(t *testing.T, w *web, header ...string) (nodes []meshNode, text string) {
	t.Helper()
	code, text := w.text(http.MethodGet, "/v1/mesh_scan", ``, header...)
	var said struct{ Nodes []meshNode }
	if err := json.Unmarshal([]byte(text), &said); err != nil || code != 200 {
		t.Fatalf("%d %s", code, text)
	}
	return said.Nodes, text
}

// An admin is shown all nodes: this one first, with its own servers alone.
func TestMeshScanOfCluster(t *testing.T) {
	w := serveWeb(t, clustered(), Options{Mode: exposure.Direct, Version: "1.2.3"}, HTTPOptions{})
	nodes, text := meshOf(t, w)
	if len(nodes) != 4 {
		t.Fatal(text)
	}
	self, box, old, rogue := nodes[0], nodes[1], nodes[2], nodes[3]
	if !self.Self || self.NodeID != "desk" || self.Tools != 1 || len(self.Servers) != 1 || self.Servers[0].Name != "a" || self.URL == "" || self.MeshPeer != nil {
		t.Errorf("self: %s", text)
	}
	if box.Self || box.NodeID != "box" || box.Status != "ok" || box.Version != "1.2.0" || box.Tools != 2 || box.LatencyMS != 0.4 || !box.Trusted || box.Key != "UBOX" || box.LastSeen.IsZero() || box.MeshSelf != nil {
		t.Errorf("box: %s", text)
	}
	if len(box.Servers) != 2 || box.Servers[0].Name != "gpu" || box.Servers[0].State != "ready" || box.Servers[0].Tools != 2 || box.Servers[0].LastError != "hush" ||
		box.Servers[1].Name != "disk" || box.Servers[1].State != "unused" {
		t.Errorf("servers of box: %+v", box.Servers)
	}
	if old.Status != "lost" || old.Problem != "its clock is off" || rogue.Status != "untrusted" || rogue.Trusted || rogue.Key != "UROGUE" || len(rogue.Servers) != 0 {
		t.Errorf("others: %s", text)
	}
}

// Who only uses tools is shown neither untrusted nodes, keys, processes and errors, nor servers
// that this router does not use.
func TestMeshScanConceals(t *testing.T) {
	user := tokens("use")[0]
	user.Admin = false
	w := serveWeb(t, clustered(), Options{Mode: exposure.Direct}, HTTPOptions{Tokens: append(tokens("admin"), user)})
	if nodes, text := meshOf(t, w, bearer("admin")...); len(nodes) != 4 || !strings.Contains(text, "UROGUE") {
		t.Errorf("the admin gets %s", text)
	}
	nodes, text := meshOf(t, w, bearer("use")...)
	if len(nodes) != 3 || len(nodes[1].Servers) != 1 || nodes[1].Servers[0].State != "ready" {
		t.Errorf("the user gets %s", text)
	}
	for _, hidden := range []string{"UBOX", "UDESK", "UROGUE", "hush", "clock", "disk", `"restarts":4`} {
		expect.Equal(t, strings.Contains(text, hidden), false, "the user gets %q: %s", hidden, text)
	}
}
