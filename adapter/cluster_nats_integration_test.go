package adapter

import (
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

// Two routers in one cluster, over NATS: one uses the shared server of the other, until that ends.
func TestTwoRoutersOverNATS(t *testing.T) {
	layer.Integration(t)
	nats := natsserver.Start(t)
	keys := make(map[string]string)
	files := make(map[string]string)
	for _, name := range []string{"box", "laptop"} {
		files[name] = filepath.Join(t.TempDir(), "node.nk")
		key, err := nodeidentity.Public(files[name])
		expect.OK(t, err)
		keys[name] = key
	}
	configure := func(name, trusted string, share, use []string, servers ...config.Server) config.Config {
		c := config.Config{Servers: servers}
		c.Router.Cluster = &config.Cluster{URLs: []string{nats.URL()}, Name: "test", Node: name, Share: share, Use: use, Trusted: []string{keys[trusted]}}
		return c
	}
	var box *Router
	var edits chan<- config.Config
	serve := ServeNode(func() *Parts { return box.Parts() })
	box, edits = runningWith(t, configure("box", "laptop", []string{"gpu"}, nil, fake("gpu", "-tools", "echo"), fake("private", "-tools", "echo")), Options{NodeKey: files["box"], ServeNode: serve})
	settled(t, box)
	laptop, _ := runningWith(t, configure("laptop", "box", nil, []string{"*"}), Options{NodeKey: files["laptop"]})
	mcptest.WaitFor(t, "the server of box", func() bool { return idsOf(laptop) == "gpu@box:echo" })

	tool, _ := laptop.parts.Tool("gpu@box:echo")
	result, err := laptop.Execute(t.Context(), selector.Call{Tool: tool, Arguments: json.RawMessage(`{"text":"hello"}`)})
	if err != nil || result.IsError || !strings.Contains(result.Text(), "hello") {
		t.Fatalf("got %s, %v", result.JSON, err)
	}
	for key, want := range map[string]string{"node_id": `"box"`, "execution_path": `["laptop","box"]`, "verified": "true", "degraded": "false"} {
		expect.Equal(t, string(wire.Member(result.Meta(), key)), want, "_meta has %s", key)
	}
	if nodes := laptop.parts.Nodes(); len(nodes) != 2 || nodes[0].Node != "laptop" || nodes[1].Node != "box" {
		t.Errorf("the nodes are %+v", nodes)
	}
	edits <- configure("box", "laptop", nil, nil, fake("gpu", "-tools", "echo"))
	mcptest.WaitFor(t, "the server to be shared no more", func() bool { return idsOf(laptop) == "" })
}
