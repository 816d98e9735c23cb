package adapter

import (
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A fakeCluster is a cluster of fixed nodes.
type fakeCluster struct {
	clusterNode // for the methods that a view does not need
	nodes       []NodeInfo
}

func (f fakeCluster) Nodes() []NodeInfo   { return f.nodes }
func (fakeCluster) Report() ClusterReport { return ClusterReport{Connected: true} }

// A profile lets see the nodes alone that have a server which it allows, and of these no keys.
func TestNodesOfScope(t *testing.T) {
	r := stocked(t, map[string]config.Profile{
		"gpu": {Servers: []string{"gpu@*"}}, "own": {Servers: []string{"a"}}, "all": {},
	}, "a")
	if r.parts.Nodes() != nil || r.parts.Scope().Nodes() != nil {
		t.Error("a router without a cluster has nodes")
	}
	if _, _, ok := r.parts.ClusterReport(); ok {
		t.Error("a router without a cluster has a report")
	}
	nodes := []NodeInfo{
		{Node: "desk", Key: "UDESK", Self: true, Trusted: true, Alive: true, Servers: []string{"a"}},
		{Node: "box", Key: "UBOX", Trusted: true, Alive: true, Servers: []string{"gpu", "disk"}, Problem: "x"},
		{Node: "nas", Key: "UNAS", Trusted: true, Alive: true, Servers: []string{"disk"}},
		{Node: "rogue", Key: "UROGUE", Alive: true, Servers: []string{"gpu"}},
	}
	r.members.now.Store(&joined{node: fakeCluster{nodes: nodes}})
	if _, _, ok := r.parts.ClusterReport(); !ok {
		t.Error("no report")
	}
	desk := NodeInfo{Node: "desk", Self: true, Trusted: true, Alive: true, Servers: []string{}}
	for _, tt := range []struct {
		name string
		view *View
		want []NodeInfo
	}{
		{"everything", r.parts.View, nodes},
		{"all", r.parts.Scope("all"), nodes},
		{"gpu", r.parts.Scope("gpu"), []NodeInfo{desk, {Node: "box", Trusted: true, Alive: true, Servers: []string{"gpu"}}}},
		{"own", r.parts.Scope("own"), []NodeInfo{{Node: "desk", Self: true, Trusted: true, Alive: true, Servers: []string{"a"}}}},
		{"none", r.parts.Scope("none"), []NodeInfo{desk}},
	} {
		expect.Deep(t, tt.view.Nodes(), tt.want, "%s", tt.name)
	}
}

func TestNodeOfServer(t *testing.T) {
	for name, want := range map[string]string{"gpu@box": "box", "a@b@box": "box"} {
		expect.Equal(t, (ServerInfo{Status: Status{Name: name, Transport: ByCluster}}).Node(), want, "%s", name)
	}
	expect.Equal(t, (ServerInfo{Status: Status{Name: "gpu@box", Transport: "stdio"}}).Node(), "", "a server of this router is on")
}
