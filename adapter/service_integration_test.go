package adapter

import (
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/nodeidentity"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
	"github.com/mcp-metarouter/metarouter/test/natsserver"
)

// Three routers over NATS: one server on two nodes is one for the third, also for a client with a
// profile, and while one of the nodes shares it no more. A router that has it too has it once.
func TestServiceOverNATS(t *testing.T) {
	layer.Integration(t)
	nats := natsserver.Start(t)
	files := make(map[string]string)
	var keys []string
	for _, name := range []string{"box", "nas", "laptop", "desk"} {
		files[name] = filepath.Join(t.TempDir(), "node.nk")
		key, err := nodeidentity.Public(files[name])
		expect.OK(t, err)
		keys = append(keys, key)
	}
	configure := func(name string, share []string, servers ...config.Server) config.Config {
		c := config.Config{Servers: servers}
		c.Router.Cluster = &config.Cluster{URLs: []string{nats.URL()}, Name: "test", Node: name, Share: share, Use: []string{"*"}, Trusted: keys}
		c.Router.Profiles = map[string]config.Profile{"gpu": {Servers: []string{"gpu"}}}
		return c
	}
	gpu := fake("gpu", "-tools", "echo")
	gpu.Service, gpu.MaxConcurrent = "gpu", 4
	start := func(name string, share []string, servers ...config.Server) (r *Router, edits chan<- config.Config) {
		serve := ServeNode(func() *Parts { return r.Parts() })
		r, edits = runningWith(t, configure(name, share, servers...), Options{NodeKey: files[name], ServeNode: serve})
		settled(t, r)
		return r, edits
	}
	_, boxEdits := start("box", []string{"gpu"}, gpu)
	_, nasEdits := start("nas", []string{"gpu"}, gpu)
	laptop, _ := start("laptop", nil)
	desk, _ := start("desk", nil, gpu)
	replicas := func(r *Router, n int) func() bool {
		return func() bool { s := r.members.services.grouping().services["gpu"]; return s != nil && len(s.Others) == n }
	}
	mcptest.WaitFor(t, "both servers", replicas(laptop, 2))
	mcptest.WaitFor(t, "both servers next to the own one", replicas(desk, 2))
	if idsOf(laptop) != "gpu:echo" || idsOf(desk) != "gpu:echo" {
		t.Fatalf("the catalogs have %s and %s", idsOf(laptop), idsOf(desk))
	}
	call := func(r *Router, profile ...string) (node string) {
		t.Helper()
		scope := r.parts.Scope(profile...)
		tool, ok := scope.Snapshot().Tool("gpu:echo")
		if !ok {
			t.Fatal("no tool")
		}
		result, err := scope.Execute(t.Context(), selector.Call{Tool: tool, Arguments: json.RawMessage(`{"text":"hello"}`)})
		if err != nil || result.IsError || !strings.Contains(result.Text(), "hello") {
			t.Fatalf("got %s, %v", result.JSON, err)
		}
		if server, _ := wire.String(wire.Member(result.Meta(), "server")); server != "gpu" || string(wire.Member(result.Meta(), "degraded")) != "false" {
			t.Errorf("_meta is %s", result.Meta())
		}
		node, _ = wire.String(wire.Member(result.Meta(), "node_id"))
		return node
	}
	nodes := make(map[string]bool)
	mcptest.WaitFor(t, "calls on both nodes", func() bool {
		nodes[call(laptop)], nodes[call(laptop, "gpu")] = true, true
		return len(nodes) == 2
	})
	if !nodes["box"] || !nodes["nas"] {
		t.Errorf("the calls ran on %v", nodes)
	}
	if node := call(desk); nodes[node] {
		t.Errorf("a call ran on %s, not here", node)
	}
	if _, err := laptop.parts.Relay(t.Context(), "gpu", Request{Method: "ping"}); err == nil || strings.Contains(err.Error(), "not known") {
		t.Errorf("ping: %v", err) // which nodes do not pass on
	}

	boxEdits <- configure("box", nil, gpu)
	mcptest.WaitFor(t, "one server less", replicas(laptop, 1))
	for range 5 {
		if node := call(laptop); node != "nas" || idsOf(laptop) != "gpu:echo" {
			t.Errorf("a call ran on %s, the catalog has %s", node, idsOf(laptop))
		}
	}
	other := fake("gpu", "-tools", "echo,add")
	other.Service = "gpu"
	boxEdits <- configure("box", []string{"gpu"}, other)
	mcptest.WaitFor(t, "the other server", func() bool {
		return strings.Contains(idsOf(laptop), "gpu@box:add") && strings.Contains(idsOf(desk), "gpu@box:add")
	})
	if problem := laptop.members.services.grouping().problems["gpu@box"]; problem == "" || !replicas(desk, 1)() {
		t.Errorf("%q, and desk has %+v", problem, desk.members.services.grouping())
	}
	nasEdits <- configure("nas", nil)
	mcptest.WaitFor(t, "the first server to be gone", func() bool { return !strings.Contains(idsOf(laptop), "gpu@box") })
	expect.Equal(t, call(laptop), "box", "a call ran on")
	expect.OK(t, laptop.parts.Await(context.Background(), "gpu"))
}
