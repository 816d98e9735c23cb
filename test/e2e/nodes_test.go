//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
	"github.com/mcp-metarouter/metarouter/test/natsserver"
)

// newNode returns the setup of a user with a node's key of its own, and the public key. It is in no cluster yet.
func newNode(t *testing.T) (s *setup, key string) {
	t.Helper()
	s = prepare(t, nil, nil)
	s.home = filepath.Join(s.dir, "home")
	key, errs, code := s.run("nodes", "key")
	if code != 0 {
		t.Fatalf("nodes key: %d, %s", code, errs)
	}
	return s, strings.TrimSpace(key)
}

// join writes a configuration with a cluster.
func (s *setup) join(servers entries, hub, node string, more map[string]any) {
	s.t.Helper()
	cluster := map[string]any{"urls": []string{hub}, "node": node}
	maps.Copy(cluster, more)
	s.write(servers, map[string]any{"cluster": cluster})
}

// A shownNode is an element of the output of nodes --json.
type shownNode struct {
	Node, Key, Version   string
	Self, Trusted, Alive bool
	Servers              []string
	Tools                int
	Latency              *float64 `json:"latency_ms"`
	LastSeen             string   `json:"last_seen"`
}

// nodes returns what nodes --json shows, by name.
func (s *setup) nodes() map[string]shownNode {
	s.t.Helper()
	out, errs, code := s.run("nodes", "--json")
	var all []shownNode
	if err := json.Unmarshal([]byte(out), &all); err != nil || code != 0 {
		s.t.Fatalf("nodes --json: %d, %v, %s\n%s", code, err, out, errs)
	}
	byName := make(map[string]shownNode)
	for _, n := range all {
		byName[n.Node] = n
	}
	return byName
}

// Two machines see each other, trust each other by the lines that nodes prints, and share a server;
// one that joins by a flag has the rest from its configuration. Trust ends while the router runs.
func TestNodes(t *testing.T) {
	t.Parallel()
	hub := natsserver.Start(t)
	box, boxKey := newNode(t)
	laptop, laptopKey := newNode(t)
	box.write(entries{"notes": fake()}, map[string]any{"cluster": map[string]any{"node": "box", "share": []string{"notes"}}})
	laptop.join(nil, hub.URL(), "laptop", map[string]any{"use": []string{"*@box"}})
	_, _, code := box.run("nodes")
	expect.Equal(t, code, 2, "without URLs, nodes exits with")
	if _, errs, code := laptop.run("nodes", "--cluster", "nats://127.0.0.1:1"); code != 1 || !strings.Contains(errs, "no NATS server answers at nats://127.0.0.1:1") {
		t.Errorf("without NATS: %d, %s", code, errs)
	}
	router := box.serve("--standalone", "--cluster", hub.URL())
	mcptest.WaitFor(t, "box to join", func() bool { return laptop.nodes()["box"].Key == boxKey })
	if got := laptop.nodes(); got["box"].Trusted || got["box"].Key != boxKey || len(got["box"].Servers) > 0 || !got["laptop"].Self || got["laptop"].Key != laptopKey {
		t.Errorf("before there is trust: %+v", got)
	}
	out, errs, _ := laptop.run("nodes")
	if !strings.Contains(out, "laptop (this one)") || !strings.Contains(errs, "box: metarouter nodes trust "+boxKey+" --write --config "+laptop.config+"\n") {
		t.Errorf("it prints\n%s\n%s", out, errs)
	}
	for s, key := range map[*setup]string{laptop: boxKey, box: laptopKey} {
		if out, errs, code := s.run("nodes", "trust", key, "--write"); code != 0 || !strings.Contains(out, key) {
			t.Fatalf("nodes trust: %d, %s\n%s", code, out, errs)
		}
	}
	mcptest.WaitFor(t, "the shared server", func() bool {
		n := laptop.nodes()["box"]
		return n.Trusted && n.Alive && slices.Equal(n.Servers, []string{"notes"}) && n.Tools > 0 && n.Latency != nil && n.Version != "" && n.LastSeen != ""
	})
	shown := func() string {
		out, _, _ := laptop.run("tools")
		return out
	}
	mcptest.WaitFor(t, "the tools of the shared server", func() bool { return strings.Contains(shown(), "notes@box:") })
	laptop.join(nil, hub.URL(), "laptop", map[string]any{"use": []string{"*@box"}})
	if out := shown(); strings.Contains(out, "notes@box") {
		t.Errorf("without trust, the tools are\n%s", out)
	}
	expect.Equal(t, strings.Contains(router.Stderr(), "joins no cluster;"), false, "the router says\n%s", router.Stderr())
}

// TestNodesSeen looks at servers of another node with the commands, with and without a router that
// runs, at the metrics of both nodes, and at what doctor says, also when NATS is gone.
func TestNodesSeen(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	nats := natsserver.Start(t)
	desk, deskKey := newNode(t)
	box, boxKey := newNode(t)
	desk.join(entries{"own": fake("-tools", "echo")}, nats.URL(), "desk", map[string]any{"use": []string{"gpu@*", "*@nas"}, "trusted": []string{boxKey}})
	box.join(entries{"gpu": fake("-tools", "echo,pid"), "broken": {"command": "metarouter-no-such-command"}}, nats.URL(), "box",
		map[string]any{"share": []string{"gpu", "broken"}, "trusted": []string{deskKey}})
	boxURL, _ := box.serveHTTP()
	mcptest.WaitFor(t, "gpu of box", func() bool { return slices.Contains(desk.nodes()["box"].Servers, "gpu") })

	says := func(s *setup, code int, want []string, args ...string) { // in vain if the command waited in vain for the cluster
		t.Helper()
		var said string
		defer func() {
			if t.Failed() {
				t.Logf("%q says\n%s", args, said)
			}
		}()
		mcptest.WaitFor(t, fmt.Sprintf("status %d and %q of %q", code, want, args), func() bool {
			out, errs, got := s.run(args...)
			said = out + errs
			return got == code && !slices.ContainsFunc(want, func(text string) bool { return !strings.Contains(said, text) })
		})
	}
	look := func() {
		t.Helper()
		says(desk, 0, []string{"gpu@box", "own"}, "servers")
		says(desk, 0, []string{`"node": "box"`, `"transport": "cluster"`}, "servers", "--json")
		says(desk, 0, []string{"node        box", "transport   cluster", "tools       2"}, "servers", "gpu@box")
		says(desk, 0, []string{"gpu@box:echo", "gpu@box:pid"}, "tools", "gpu@box")
		says(desk, 0, []string{"gpu@box:pid"}, "search", "process ID")
		says(desk, 0, []string{`"message":"hi"`}, "call", "gpu@box:echo", "message=hi")
		says(desk, 0, []string{`"*@nas" in "use" of "cluster" fits no server`}, "doctor")
	}
	look() // by a router of each command
	url, _ := desk.serveHTTP("--mode", "direct")
	look() // by a router that may not have joined yet: the commands wait for that
	says(desk, 2, []string{`"gpu@box" is a server of another node; run this command on that machine`}, "restart", "gpu@box")
	says(box, 1, []string{"broken"}, "doctor")

	metrics := func(url, series string) {
		t.Helper()
		mcptest.WaitFor(t, series, func() bool {
			return strings.Contains(get(t, strings.TrimSuffix(url, "/mcp")+"/metrics"), series+"\n")
		})
	}
	metrics(url, `metarouter_cluster_nodes{state="alive"} 1`)
	metrics(boxURL, `metarouter_cluster_nodes{state="alive"} 1`)
	nats.Kill()
	metrics(url, "metarouter_cluster_connected 0")
	says(desk, 1, []string{"no NATS server answers at " + nats.URL(), "start one there"}, "doctor")
	for _, args := range [][]string{{"servers"}, {"servers", "--json"}, {"tools"}} {
		says(desk, 0, []string{"own", "servers of other nodes may be missing: there is no connection to NATS: "}, args...)
	}
	says(desk, 2, []string{"servers of other nodes may be missing"}, "servers", "gpu@nas")
}

// TestClusterCells does the checks of TestCells with the server on another node of a cluster.
func TestClusterCells(t *testing.T) {
	t.Parallel()
	hub := natsserver.Start(t)
	for i, c := range []*cell{
		{transport: "stdio", clientEra: "legacy", serverEra: "modern"}, {transport: "http", clientEra: "legacy", serverEra: "legacy"},
		{transport: "stdio", clientEra: "modern", serverEra: "modern"}, {transport: "http", clientEra: "modern", serverEra: "legacy"},
	} {
		t.Run(fmt.Sprintf("%s client by %s of %s server", c.clientEra, c.transport, c.serverEra), func(t *testing.T) {
			t.Parallel()
			near, nearKey := newNode(t)
			far, farKey := newNode(t)
			member := map[string]any{"name": fmt.Sprint("cells-", i), "share": []string{"*"}, "use": []string{"*"}, "trusted": []string{nearKey, farKey}}
			far.join(entries{"fake": c.server(t)}, hub.URL(), "far", member)
			near.join(nil, hub.URL(), "near", member)
			far.serveHTTP()
			c.elsewhere = true
			c.open(t, near)
			mcptest.WaitFor(t, "the tools", func() bool {
				names, err := mcptest.ToolNames(within(t), c)
				return err == nil && slices.Contains(names, "echo")
			})
			c.check(t)
		})
	}
}
