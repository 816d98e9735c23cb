//go:build unix

package e2e

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/mcptest"
	"github.com/mcp-metarouter/metarouter/test/natsserver"
)

// A shownNode is an element of the output of nodes --json.
type shownNode struct {
	Node, Key, Version   string
	Self, Trusted, Alive bool
	Servers              []string
	Tools                int
	Latency              *float64 `json:"latency_ms"`
	LastSeen             string   `json:"last_seen"`
}

// prepareNode creates a setup of a user with a key of its own.
func prepareNode(t *testing.T, servers entries, cluster map[string]any) (s *setup, key string) {
	t.Helper()
	s = prepare(t, servers, map[string]any{"cluster": cluster})
	s.home = filepath.Join(s.dir, "home")
	out, errs, code := s.run("nodes", "key")
	if code != 0 {
		t.Fatalf("nodes key: %d, %s", code, errs)
	}
	return s, strings.TrimSpace(out)
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
	box, boxKey := prepareNode(t, entries{"notes": fake()}, map[string]any{"node": "box", "share": []string{"notes"}})
	laptop, laptopKey := prepareNode(t, nil, map[string]any{"urls": hub.URL(), "node": "laptop", "use": []string{"*@box"}})
	_, _, code := box.run("nodes")
	if code != 2 {
		t.Errorf("without URLs, nodes exits with %d", code)
	}
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
	awaitInCluster(time.Time{}, func() bool {
		out = shown()
		return strings.Contains(out, "notes@box:")
	})
	if !strings.Contains(out, "notes@box:") {
		t.Errorf("the tools are\n%s", out)
	}
	if _, errs, code := laptop.run("nodes", "untrust", boxKey, "--write"); code != 0 {
		t.Fatal(errs)
	}
	if out := shown(); strings.Contains(out, "notes@box") {
		t.Errorf("without trust, the tools are\n%s", out)
	}
	if strings.Contains(router.Stderr(), "joins no cluster;") {
		t.Errorf("the router says\n%s", router.Stderr())
	}
}
