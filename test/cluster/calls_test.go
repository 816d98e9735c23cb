//go:build linux

package cluster

import (
	"path/filepath"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/natsserver"
)

// bank returns an entry with a ledger server that carries the name of its node. With a service it
// is one server with that of other nodes.
func bank(node, ledger, service string) map[string]any {
	entry := fake(map[string]any{"timeout": "20s"}, "-name", node, "-version", "1", "-tools", read+","+put+","+charge, "-ledger", ledger)
	if service != "" {
		entry["service"] = service
	}
	return entry
}

// A gateway calls servers of other nodes by their qualified names.
func TestCalls(t *testing.T) {
	t.Parallel()
	hub := natsserver.Start(t)
	ledger := filepath.Join(t.TempDir(), "ledger")
	urls := []string{hub.URL()}
	a := newNode(t, "a", urls, entries{})
	b := newNode(t, "b", urls, entries{"solo": bank("b", ledger, ""), "bank": bank("b", ledger, "")})
	c := newNode(t, "c", urls, entries{"bank": bank("c", ledger, ""), "secret": bank("c", ledger, "")})
	b.cluster["share"], c.cluster["share"] = []string{"*"}, []string{"bank"}
	trustEachOther(a, b, c)
	for _, n := range []*node{a, b, c} {
		n.start()
	}
	a.lists("solo-at-b__"+read, "bank-at-b__"+read, "bank-at-c__"+charge)
	l := &load{name: "one", client: a.client()}
	var outcomes []outcome
	for _, server := range []string{"solo-at-b", "bank-at-b", "bank-at-c"} {
		for _, tool := range []string{read, put, charge} {
			outcomes = append(outcomes, l.call(server+tool, server, tool, 1))
		}
	}
	reportBroken(t, check(outcomes, readLedger(t, ledger), nil))
	a.listsNot("secret-at-c__" + read)
}
