package cluster

import (
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/cluster/internal/directory"
	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
	"github.com/mcp-metarouter/metarouter/cluster/internal/roster"
	"github.com/mcp-metarouter/metarouter/config"
)

// A node says which servers of another living node it has not learned yet: also servers in an
// announcement that has come and was not looked at.
func TestUnlearned(t *testing.T) {
	peer := func(change func(*roster.Peer)) roster.Peer {
		p := roster.Peer{Address: frame.Address{Key: "BOX"}, Node: "box", Alive: true, Revision: "2"}
		if change != nil {
			change(&p)
		}
		return p
	}
	announced := func(revision string, servers ...string) *directory.Announcement {
		a := &directory.Announcement{Revision: revision}
		for _, name := range servers {
			a.Servers = append(a.Servers, directory.Server{Name: name})
		}
		return a
	}
	for name, tc := range map[string]struct {
		peer    roster.Peer
		known   *directory.Announcement
		remotes map[string]*remote
		want    string // "" if all is known
	}{
		"no announcement":          {peer(nil), nil, nil, "what the node box shares"},
		"an older announcement":    {peer(nil), announced("1", "gpu"), map[string]*remote{"gpu@box": {learned: true}}, "what the node box shares"},
		"not looked at":            {peer(nil), announced("2", "gpu"), nil, "what the server gpu@box offers"},
		"not learned":              {peer(nil), announced("2", "gpu"), map[string]*remote{"gpu@box": {}}, "what the server gpu@box offers"},
		"learned":                  {peer(nil), announced("2", "gpu"), map[string]*remote{"gpu@box": {learned: true}}, ""},
		"can't be learned":         {peer(nil), announced("2", "gpu"), map[string]*remote{"gpu@box": {problem: "too large"}}, ""},
		"not used here":            {peer(nil), announced("2", "disk"), nil, ""},
		"it leaves":                {peer(func(p *roster.Peer) { p.Leaving = true }), announced("2", "gpu"), nil, ""},
		"it is lost":               {peer(func(p *roster.Peer) { p.Alive = false }), nil, nil, ""},
		"it shares nothing":        {peer(func(p *roster.Peer) { p.Revision = "" }), nil, nil, ""},
		"it is a router of ours":   {peer(func(p *roster.Peer) { p.Address.Key = "OWN" }), nil, nil, ""},
		"one of two is not looked": {peer(nil), announced("2", "gpu", "gpu2"), map[string]*remote{"gpu@box": {learned: true}}, "what the server gpu2@box offers"},
	} {
		m := &member{self: frame.Address{Key: "OWN"}, remotes: tc.remotes}
		known := map[string]*directory.Announcement{}
		if tc.known != nil {
			known["BOX"] = tc.known
		}
		got := ""
		if err := m.unlearned(rulesOf(config.Cluster{Use: []string{"gpu*@box"}}), []roster.Peer{tc.peer}, known); err != nil {
			got = err.Error()
		}
		if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}

// A node that can't join says why its servers are not known, at once.
func TestSettledWithoutACluster(t *testing.T) {
	n := New(Options{})
	n.set(nil, "the key can't be read")
	if err := n.Settled(t.Context()); err == nil || !strings.Contains(err.Error(), "the key can't be read") {
		t.Errorf("it says %v", err)
	}
}
