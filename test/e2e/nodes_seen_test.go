//go:build unix

package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
	"github.com/mcp-metarouter/metarouter/test/natsserver"
)

// inCluster returns the "metarouter" object of a node of the cluster at a NATS server.
func inCluster(nats *natsserver.Server, node string, more map[string]any) map[string]any {
	cluster := map[string]any{"urls": []string{nats.URL()}, "node": node}
	for key, value := range more {
		cluster[key] = value
	}
	return map[string]any{"cluster": cluster}
}

// TestNodesSeen looks at servers of another node with the commands, with and without a router that
// runs, at the metrics of both nodes, and at what doctor says.
func TestNodesSeen(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	nats := natsserver.Start(t)
	servers := entries{"gpu": fake("-tools", "echo,pid"), "broken": {"command": "metarouter-no-such-command"}}
	own := entries{"own": fake("-tools", "echo")}
	desk, deskKey := keyed(t, own)
	box, boxKey := keyed(t, servers)
	desk.write(own, inCluster(nats, "desk", map[string]any{"use": []string{"gpu@*", "*@nas"}, "trusted": []string{boxKey}}))
	box.write(servers, inCluster(nats, "box", map[string]any{"share": []string{"gpu", "broken"}, "trusted": []string{deskKey}}))
	boxURL, _ := box.serveHTTP()
	awaitShared(desk, "box", "gpu")

	var running time.Time // since when desk has a router
	says := func(s *setup, code int, want []string, args ...string) {
		t.Helper()
		var out, errs string
		var got int
		awaitInCluster(running, func() bool {
			out, errs, got = s.run(args...)
			return got == code && !slices.ContainsFunc(want, func(text string) bool { return !strings.Contains(out+errs, text) })
		})
		for _, text := range want {
			if !strings.Contains(out+errs, text) || got != code {
				t.Errorf("%q: status %d, not %d with %q:\n%s%s", args, got, code, text, out, errs)
			}
		}
	}
	look := func() {
		t.Helper()
		says(desk, 0, []string{"gpu@box", "own"}, "servers")
		says(desk, 0, []string{`"node": "box"`, `"transport": "cluster"`}, "servers", "--json")
		says(desk, 0, []string{"node        box", "transport   cluster", "tools       2"}, "servers", "gpu@box")
		says(desk, 0, []string{"gpu@box:echo", "gpu@box:pid"}, "tools", "gpu@box")
		says(desk, 0, []string{"gpu@box:pid"}, "search", "process ID")
		says(desk, 0, []string{`"message":"hi"`}, "call", "gpu@box:echo", "message=hi")
		says(desk, 0, []string{`"*@nas" in "use" of "cluster" fits no server`, "another trusted node is alive: box"}, "doctor")
	}
	look() // by a router of each command
	running = time.Now()
	url, _ := desk.serveHTTP("--mode", "direct")
	look() // by a router that may not have joined yet: the commands wait for that
	says(desk, 2, []string{`"gpu@box" is a server of another node; run this command on that machine`}, "restart", "gpu@box")
	says(box, 1, []string{"the server broken is shared, but failed"}, "doctor")

	for _, at := range []struct{ url, series string }{
		{url, `metarouter_cluster_calls_sent_total{node="box",outcome="ok"} 1`},
		{url, `metarouter_cluster_nodes{state="alive"} 1`},
		{boxURL, `metarouter_cluster_calls_received_total{node="desk",outcome="ok"} 2`}, // also that of the first look
	} {
		var text string
		defer func() {
			if t.Failed() {
				t.Logf("the metrics are\n%s", clusterLines(text))
			}
		}()
		mcptest.WaitFor(t, at.series, func() bool {
			text = get(t, strings.TrimSuffix(at.url, "/mcp")+"/metrics")
			return strings.Contains(text, at.series+"\n")
		})
	}
	nats.Kill()
	mcptest.WaitFor(t, "the router to see that NATS is gone", func() bool {
		return strings.Contains(get(t, strings.TrimSuffix(url, "/mcp")+"/metrics"), "metarouter_cluster_connected 0\n")
	})
	says(desk, 1, []string{"no NATS server answers at " + nats.URL(), "start one there"}, "doctor")
}

// clusterWait is how long after the start of their router commands wait for the cluster.
const clusterWait = 8 * time.Second

// awaitInCluster runs a command until it does as it should. It has to at once, unless it waited for the cluster in vain,
// as on a busy machine. A router has run since then; if that is zero, the command has one of its own.
func awaitInCluster(running time.Time, command func() bool) {
	for deadline := time.Now().Add(3 * time.Minute); time.Now().Before(deadline); {
		since := running
		if since.IsZero() {
			since = time.Now()
		}
		if command() || time.Since(since) < clusterWait {
			return
		}
	}
}

// awaitShared waits until a node sees that another one shares a server.
func awaitShared(s *setup, node, server string) {
	s.t.Helper()
	mcptest.WaitFor(s.t, server+" of "+node, func() bool { return slices.Contains(s.nodes()[node].Servers, server) })
}

// TestNodesMissing looks at the commands of a router that can't reach NATS: they say that servers of
// other nodes may be missing, with and without a router that runs.
func TestNodesMissing(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	own := entries{"own": fake("-tools", "echo")}
	desk, _ := keyed(t, own)
	cluster := map[string]any{"urls": []string{"nats://" + mcptest.FreeAddress(t)}, "node": "desk", "use": []string{"gpu@*"}}
	desk.write(own, map[string]any{"cluster": cluster})
	look := func() {
		t.Helper()
		for _, args := range [][]string{{"servers"}, {"servers", "--json"}, {"tools"}} {
			out, errs, code := desk.run(args...)
			if code != 0 || !strings.Contains(out, "own") || strings.Count(errs, "servers of other nodes may be missing: there is no connection to NATS: ") != 1 {
				t.Errorf("%q: status %d\n%s%s", args, code, out, errs)
			}
		}
	}
	look()
	desk.serveHTTP()
	look()
	if _, errs, code := desk.run("servers", "gpu@box"); code != 2 || !strings.Contains(errs, "servers of other nodes may be missing") {
		t.Errorf("a server of a node: status %d\n%s", code, errs)
	}
}

// clusterLines returns the lines of a page of metrics that are about the cluster.
func clusterLines(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "metarouter_cluster_") {
			b.WriteString(line)
		}
	}
	return b.String()
}
