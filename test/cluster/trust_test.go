//go:build linux

package cluster

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/fakeserver"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
	"github.com/mcp-metarouter/metarouter/test/natsserver"
)

// A nodeInfo is an element of the output of nodes --json.
type nodeInfo struct {
	Node, Key     string
	Self, Trusted bool
	Servers       []string
}

// seen returns the nodes that a node shows.
func (n *node) seen() (all []nodeInfo) {
	n.t.Helper()
	text := n.run("nodes", "--json")
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		n.t.Fatalf("%s: %v", text, err)
	}
	return all
}

// A stranger in the same NATS account that announces servers is never called, and its own calls
// run nothing. Nor does it gain anything by the name of a trusted node.
func TestStranger(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	hub := natsserver.Start(t)
	urls := []string{hub.URL()}
	honest, stolen := filepath.Join(t.TempDir(), "honest"), filepath.Join(t.TempDir(), "stolen")
	a := newNode(t, "a", urls, entries{})
	b, impostor := newNode(t, "b", urls, nil), newNode(t, "b", urls, nil)
	if impostor.key > b.key { // the lower key would keep the name if both were trusted
		b, impostor = impostor, b
	}
	b.entries = entries{"bank": bank("b", honest)}
	b.cluster["share"] = []string{"*"}
	trustEachOther(a, b)
	stranger := newNode(t, "stranger", urls, entries{"github": bank("stranger", stolen), "bank": bank("stranger", stolen)})
	impostor.entries = entries{"github": bank("impostor", stolen), "bank": bank("impostor", stolen)}
	for _, n := range []*node{stranger, impostor} {
		n.cluster["share"], n.cluster["trusted"] = []string{"*"}, []string{a.key, b.key}
		n.write()
		n.start()
	}
	b.start()
	a.start()
	a.lists("bank-at-b__" + charge)
	var known []nodeInfo
	mcptest.WaitFor(t, "the strangers in nodes --json", func() bool {
		known = a.seen()
		return len(known) == 4
	})
	for _, n := range known {
		if want := n.Key == a.key || n.Key == b.key; n.Trusted != want || n.Self != (n.Key == a.key) {
			t.Errorf("%+v, want trusted to be %v", n, want)
		}
		if n.Key == b.key && n.Node != "b" {
			t.Errorf("the impostor has the name of b, which is %s now", n.Node)
		}
	}
	l := &load{name: "a", client: a.client()}
	for range 20 {
		if o := l.call("c", "bank-at-b", charge, 0); o.status != succeeded || o.node != "b" || !o.verified {
			t.Errorf("%+v", o)
		}
	}
	names, err := mcptest.ToolNames(within(t), a.client())
	if err != nil || slices.ContainsFunc(names, func(name string) bool {
		return name != "bank-at-b__"+read && name != "bank-at-b__"+put && name != "bank-at-b__"+charge
	}) {
		t.Errorf("a lists %q, %v", names, err)
	}
	before := len(readLedger(t, honest))
	for n, target := range map[*node]string{stranger: "bank-at-b", impostor: "bank-at-b-" + strings.ToLower(b.key[2:6])} {
		n.lists(target + "__" + charge)                                          // announcements are no secret
		thief := &load{name: n.name, client: n.client(), waits: 3 * time.Second} // b does not answer strangers
		for _, tool := range []string{read, put, charge} {
			if o := thief.call("theft", target, tool, 0); o.status == succeeded {
				t.Errorf("a call of %s ran: %+v", n.name, o)
			}
		}
	}
	time.Sleep(late)
	if lines := readLedger(t, stolen); slices.ContainsFunc(lines, func(l fakeserver.LedgerLine) bool { return l.ID == "c" }) {
		t.Errorf("the strangers ran %+v", lines)
	}
	expect.Equal(t, len(readLedger(t, honest)), before, "the strangers' calls have run: lines of the ledger")
}
