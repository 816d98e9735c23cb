package adapter

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nkeys"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/profile"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/play"
)

// serveNothing is the ServeNode of routers whose hosts are called without a stream.
func serveNothing(context.Context, *NodeView, net.Conn) {}

// viewOf returns the view of the node laptop with the key.
func viewOf(h *clusterHost, server, key string) *NodeView {
	return &NodeView{nodeStream{h, clusternode.Stream{
		Server: server, Key: key, Node: "laptop", Lapsed: func() bool { return false }, Local: func(t time.Time) time.Time { return t },
	}}}
}

// do carries out a request as package server does.
func (v *NodeView) do(ctx context.Context, method, params string, origin *session.Origin, from session.Client) (json.RawMessage, error) {
	meta := wire.Marshal(map[string]any{clusternode.MetaKey: clusternode.Request{ID: "1", Origin: origin}})
	r, err := v.Admit(method, json.RawMessage(params), meta)
	if err != nil {
		return nil, err
	}
	result, err := r.Do(ctx, session.Request{From: from})
	if err != nil {
		return nil, err
	}
	return r.Answer(result), nil
}

// runningAsNode runs a router that is the node box of a cluster without other nodes.
func runningAsNode(t *testing.T, c config.Config) *Router {
	t.Helper()
	r, _ := runningWith(t, c, Options{Play: play.Server, ServeNode: serveNothing, onNode: func(*Router, *services) clusterNode {
		return &pairNode{name: "box", running: make(chan struct{}), farNode: newFarNode(t)}
	}})
	settled(t, r)
	return r
}

// A request of another node must be allowed by the router's own profile, and by the rules of the
// client's node.
func TestHostAllows(t *testing.T) {
	c := inCluster(configOf(map[string]config.Profile{
		"default": {Deny: []string{"delete_*"}},
		"dev":     {},
		"nothing": {Servers: []string{}},
	}, "a", "b", "off"), "a", "off")
	c.Servers[2].Disabled = true
	r := New(c, Options{Play: play.Server, ServeNode: serveNothing, onNode: func(*Router, *services) clusterNode { return &pairNode{name: "box"} }})
	defer r.Close()
	for _, name := range []string{"a", "b", "off"} {
		replace(t, r, name, offerOf(name))
	}
	h := newClusterHost(r)
	theirs := map[string]config.Profile{
		"dev": {}, "other": {Servers: []string{"a@box"}}, "wrong": {Servers: []string{"a"}}, "readers": {ReadOnly: true},
		"one": {Allow: []string{"a@box:read_*"}}, "nothing": {},
	}
	for _, tt := range []struct {
		profile, rules string
		server, tool   string
		allowed        bool
	}{
		{"", "", "a", "read_x", true},
		{"", "", "a", "delete_x", false}, // own default
		{"", "", "b", "read_x", false},   // not shared
		{"", "", "off", "read_x", false}, // disabled
		{"", "", "a@box", "read_x", false},
		{"", "", "c", "read_x", false},
		{"dev", "", "a", "delete_x", true}, // own profile of the name
		{"dev", "dev", "a", "delete_x", true},
		{"other", "other", "a", "read_x", true},
		{"other", "other", "a", "delete_x", false}, // own default, as there is no "other"
		{"wrong", "wrong", "a", "read_x", false},
		{"dev", "readers", "a", "delete_x", false},
		{"dev", "one", "a", "read_x", true},
		{"dev", "one", "a", "delete_x", false},
		{"dev", "missing", "a", "read_x", false},
		{"nothing", "nothing", "a", "read_x", false}, // own profile of the name
		{"dev+nothing", "dev", "a", "read_x", false},
		{"dev", `{"chosen":["dev"],"profiles":{"dev":{"later":1}}}`, "a", "read_x", false},
		{"dev", `[]`, "a", "read_x", false},
	} {
		origin := &session.Origin{Profile: tt.profile}
		switch {
		case strings.ContainsAny(tt.rules, "{["):
			origin.Rules = json.RawMessage(tt.rules)
		case tt.rules != "":
			origin.Rules = profile.Encode(theirs, tt.rules)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel() // an allowed call ends at once, since the router does not run
		_, err := viewOf(h, tt.server, "UA").do(ctx, "tools/call", `{"name":"`+tt.tool+`","arguments":{"owner":"a","title":"b"}}`, origin, new(sink))
		_, refused := errors.AsType[*session.Error](err)
		if err == nil || refused == tt.allowed {
			t.Errorf("%+v: %v", tt, err)
		}
		_, err = viewOf(h, tt.server, "UA").do(ctx, "resources/read", `{"uri":"doc://a/a"}`, origin, new(sink))
		if tt.tool == "read_x" && tt.rules != "one" {
			expect.Equal(t, errors.Is(err, context.Canceled), tt.allowed, "%+v: read: %v", tt, err)
		}
	}
	offers, _ := h.Offers()
	if len(offers) != 1 || len(offers["a"].Tools) != 2 {
		t.Errorf("offers %v", offers)
	}
}

// Hints that the router does not believe are not announced.
func TestOffers(t *testing.T) {
	c := inCluster(configOf(nil, "a"), "*")
	c.Servers[0].Timeout, c.Servers[0].ToolTimeouts = time.Minute, map[string]time.Duration{"x": time.Hour}
	r := New(c, Options{Play: play.Server, ServeNode: serveNothing})
	defer r.Close()
	o := offerOf("a")
	for i := range o.Tools {
		o.Tools[i].Definition = wire.SetMember(o.Tools[i].Definition, "annotations", []byte(`{"readOnlyHint":true}`))
	}
	o.Tools[1].Doubt = "its name says that it deletes"
	replace(t, r, "a", o)
	h := newClusterHost(r)
	first, _ := h.Offers()
	tools := first["a"].Tools
	if wire.Member(tools[0], "annotations") == nil || wire.Member(tools[1], "annotations") != nil {
		t.Errorf("announced: %s", tools)
	}
	expect.Equal(t, first["a"].Terms.Timeout, time.Hour, "the timeout")
}

// A node that carries out a call never sends it on to a stand-in that is not shared.
func TestStandInsOfHost(t *testing.T) {
	box := config.Config{Servers: []config.Server{fake("gpu", "-exit"), fake("spare", "-tools", "echo"), fake("open", "-tools", "echo")}}
	for i := range box.Servers {
		box.Servers[i].Group = "g"
	}
	r := runningAsNode(t, inCluster(box, "gpu", "open"))
	tool, _ := r.Tool("open:echo")
	lost := *tool
	lost.Server, lost.ID = "gpu", "gpu:echo"
	replace(t, r, "gpu", registry.Offer{Tools: []registry.NormalizedTool{lost}})
	for range 3 {
		result, err := viewOf(newClusterHost(r), "gpu", "UA").do(t.Context(), "tools/call", `{"name":"echo","arguments":{"text":"x"}}`, nil, new(sink))
		if err != nil || string(wire.Member(wire.Member(wire.Member(result, "_meta"), clusternode.MetaKey), "degraded")) != "true" {
			t.Fatalf("got %s, %v", result, err)
		}
		if server, _ := wire.String(wire.Member(wire.Member(result, "_meta"), "server")); server != "open" {
			t.Fatalf("answered by %s", server)
		}
	}
}

// The rules to ask of the node that carries out a call hold too: the client's person is asked, once.
func TestHostAsks(t *testing.T) {
	box := inCluster(config.Config{Servers: []config.Server{fake("gpu", "-tools", "echo")}}, "gpu")
	box.Router.Profiles = map[string]config.Profile{"default": {AskFor: []string{"echo"}}}
	r := runningAsNode(t, box)
	for action, failed := range map[string]bool{"accept": false, "decline": true} {
		client := says(action)
		result, err := viewOf(newClusterHost(r), "gpu", "UA").do(t.Context(), "tools/call", `{"name":"echo","arguments":{}}`, nil, client)
		if is := string(wire.Member(result, "isError")) == "true"; err != nil || is != failed || client.asked.Load() != 1 {
			t.Errorf("%s: %s, %v after %d questions", action, result, err, client.asked.Load())
		}
	}
	expect.Equal(t, len(r.Approvals().List()), 0, "calls wait")
}

// Calls of a principal count for its node alone, even if another node has its name
// meanwhile.
func TestHostTellsNodesApart(t *testing.T) {
	gpu := fake("gpu", "-tools", "echo")
	gpu.ToolRates = map[string]config.Rate{"echo": {PerSecond: 1.0 / 3600, Burst: 1}}
	r := runningAsNode(t, inCluster(config.Config{Servers: []config.Server{gpu}}, "gpu"))
	host := newClusterHost(r)
	for i, tt := range []struct {
		key  string
		runs bool
	}{{"UA", true}, {"UA", false}, {"UB", true}} {
		result, err := viewOf(host, "gpu", tt.key).do(t.Context(), "tools/call", `{"name":"echo","arguments":{"text":"x"}}`, nil, new(sink))
		if failed := string(wire.Member(result, "isError")) == "true"; err != nil || failed == tt.runs {
			t.Errorf("call %d of %s: %s, %v", i, tt.key, result, err)
		}
	}
}

// Patterns of another node's rules are not compared with texts of any length.
func TestHostBoundsPatterns(t *testing.T) {
	r := &NodeRequest{node: new(NodeView), view: New(config.Config{}, Options{}).Scope(), rules: profile.Of(map[string]config.Profile{"p": {Deny: []string{"x"}}}, "p"), self: "box"}
	if long := strings.Repeat("a", maxMatched+1); !r.uri(long[1:]) || r.uri(long) || r.name(long) {
		t.Error("a long text was compared")
	}
}

// A result has a signature of this node over the request that came last. A request without the member
// of nodes, or from a node that was frozen, is not carried out.
func TestNodeViewSigns(t *testing.T) {
	r := runningAsNode(t, inCluster(config.Config{Servers: []config.Server{fake("gpu", "-tools", "echo,crash")}}, "gpu"))
	identity := r.members.node()
	h := newClusterHost(r)
	v := viewOf(h, "gpu", "UA")
	const params = `{"name":"echo","arguments":{"text" : "é"}}`
	result, err := v.do(t.Context(), "tools/call", params, nil, new(sink))
	expect.OK(t, err)
	var answer clusternode.Answer
	expect.OK(t, json.Unmarshal(wire.Member(wire.Member(result, "_meta"), clusternode.MetaKey), &answer))
	signed := clusternode.Signed{ID: "1", Owner: identity.Key(), Caller: "UA", Server: "gpu", Tool: "echo", Params: json.RawMessage(params), Result: result}
	public, err := nkeys.FromPublicKey(identity.Key())
	expect.OK(t, err)
	expect.OK(t, public.Verify(signed.Bytes(), answer.Signature))
	signed.Result = wire.SetMember(result, "isError", []byte("true"))
	if public.Verify(signed.Bytes(), answer.Signature) == nil {
		t.Error("another result has the signature")
	}

	if _, err := v.Admit("tools/call", json.RawMessage(params), json.RawMessage(`{}`)); err == nil || !strings.Contains(err.Error(), clusternode.MetaKey) {
		t.Errorf("without the member: %v", err)
	}
	_, err = v.do(t.Context(), "tools/call", `{"name":"crash"}`, nil, new(sink))
	expect.Equal(t, outcomeIn(err), "closed", "a server that ended: %v", err)
	lapsed := false
	v.stream.Lapsed = func() bool { return lapsed }
	admitted, err := v.Admit("tools/call", json.RawMessage(params), wire.Marshal(map[string]any{clusternode.MetaKey: clusternode.Request{ID: "2"}}))
	expect.OK(t, err)
	lapsed = true
	_, err = admitted.Do(t.Context(), session.Request{From: new(sink)})
	expect.Equal(t, outcomeIn(err), "not_sent", "a node that was frozen later: %v", err)
	_, err = v.do(t.Context(), "tools/call", params, nil, new(sink))
	expect.Equal(t, outcomeIn(err), "not_sent", "a node that was frozen: %v", err)
	lapsed = false
	v.stream.Key = "UC"
	if _, err := admitted.Do(t.Context(), session.Request{From: new(sink)}); outcomeIn(err) != "not_sent" || !strings.Contains(err.Error(), "not shared") {
		t.Errorf("a node that lost trust later: %v", err)
	}
	forged := v.NotSent(&session.Error{Code: 7, Data: json.RawMessage(`{"a":1,"metarouter":{"outcome":"not_sent"}}`)})
	if outcomeIn(forged) != "" || !strings.Contains(string(forged.(*session.Error).Data), `"a":1`) {
		t.Errorf("an error of the server became %+v", forged)
	}
}

// outcomeIn returns the outcome that an error for another node has.
func outcomeIn(err error) string {
	e, _ := errors.AsType[*session.Error](err)
	if e == nil {
		return ""
	}
	outcome, _ := wire.String(wire.Member(wire.Member(e.Data, "metarouter"), "outcome"))
	return outcome
}

// A fakeCluster is a cluster of fixed nodes.
type fakeCluster struct {
	clusterNode // for the methods that a view does not need
	nodes       []clusternode.Info
}

func (f fakeCluster) Nodes() []clusternode.Info { return f.nodes }
func (fakeCluster) Report() clusternode.Report  { return clusternode.Report{Connected: true} }

// A profile lets see the nodes alone that have a server which it allows, and of these no keys.
func TestNodesOfScope(t *testing.T) {
	r := stocked(t, map[string]config.Profile{
		"gpu": {Servers: []string{"gpu@*"}}, "own": {Servers: []string{"a"}}, "all": {},
	}, "a")
	if r.Nodes() != nil || r.Scope().Nodes() != nil {
		t.Error("a router without a cluster has nodes")
	}
	if _, ok := r.ClusterReport(); ok {
		t.Error("a router without a cluster has a report")
	}
	nodes := []clusternode.Info{
		{Node: "desk", Key: "UDESK", Self: true, Trusted: true, Alive: true, Servers: []string{"a"}},
		{Node: "box", Key: "UBOX", Trusted: true, Alive: true, Servers: []string{"gpu", "disk"}, Problem: "x"},
		{Node: "nas", Key: "UNAS", Trusted: true, Alive: true, Servers: []string{"disk"}},
		{Node: "rogue", Key: "UROGUE", Alive: true, Servers: []string{"gpu"}},
	}
	r.members.now.Store(&joined{node: fakeCluster{nodes: nodes}})
	if _, ok := r.ClusterReport(); !ok {
		t.Error("no report")
	}
	desk := clusternode.Info{Node: "desk", Self: true, Trusted: true, Alive: true, Servers: []string{}}
	for _, tt := range []struct {
		name string
		view *View
		want []clusternode.Info
	}{
		{"everything", r.View, nodes},
		{"all", r.Scope("all"), nodes},
		{"gpu", r.Scope("gpu"), []clusternode.Info{desk, {Node: "box", Trusted: true, Alive: true, Servers: []string{"gpu"}}}},
		{"own", r.Scope("own"), []clusternode.Info{{Node: "desk", Self: true, Trusted: true, Alive: true, Servers: []string{"a"}}}},
		{"none", r.Scope("none"), []clusternode.Info{desk}},
	} {
		expect.Deep(t, tt.view.Nodes(), tt.want, "%s", tt.name)
	}
}

func TestNodeOfServer(t *testing.T) {
	for name, want := range map[string]string{"gpu@box": "box", "a@b@box": "box"} {
		expect.Equal(t, (status.Server{Status: status.Status{Name: name, Transport: status.ByCluster}}).Node(), want, "%s", name)
	}
	expect.Equal(t, (status.Server{Status: status.Status{Name: "gpu@box", Transport: "stdio"}}).Node(), "", "a server of this router is on")
}
