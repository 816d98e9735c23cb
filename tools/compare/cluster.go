//go:build linux

package main

import (
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/mcp-metarouter/metarouter/test/mcptest"
	"github.com/mcp-metarouter/metarouter/test/natsserver"
)

// compareCluster measures calls of one server that is on the gateway itself and on another node, for a client over HTTP.
func compareCluster(t *T, o options) {
	program, light := built(t, "cmd/metarouter"), built(t, "test/chaos")
	hub := natsserver.Start(t)
	homes, keys := map[string]string{}, []string{}
	for _, node := range []string{"a", "b"} {
		homes[node] = t.TempDir()
		cmd := exec.Command(program, "nodes", "key")
		cmd.Env = environmentIn(homes[node])
		key, err := cmd.Output()
		if err != nil {
			t.Fatalf("nodes key: %v", err)
		}
		keys = append(keys, strings.TrimSpace(string(key)))
	}
	_, args := mcptest.Command("-tools", "say")
	servers := entries{"s0": {"command": light, "args": args}}
	start := func(node string) route {
		home, address := homes[node], mcptest.FreeAddress(t)
		file := writeServers(t, home, servers, map[string]any{"metarouter": map[string]any{"listWait": "60s", "cluster": map[string]any{
			"urls": []string{hub.URL()}, "name": "compare", "node": node, "share": []string{"*"}, "use": []string{"*"}, "trusted": keys,
		}}})
		serve := []string{"serve", "--mode", "direct", "--http", address, "--config", file, "--data", filepath.Join(home, "data")}
		r, err := route{servers: 1, merged: true, home: home}.listening(t, "http://"+address+"/mcp", program, serve...)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	start("b")
	gateway := start("a")
	awaitTools(t, gateway, 2)
	ways := []way{{name: "own server"}, {name: "server of another node"}}
	routes := map[string]route{ways[0].name: gateway}
	gateway.node = "b"
	routes[ways[1].name] = gateway
	taken := samples{}
	taken.callsOf(t, ways, routes, o.turns, "say")
	taken.print("one server with one tool", ways)
}
