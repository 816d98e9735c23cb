package execute

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestChoose(t *testing.T) {
	for _, tt := range []struct {
		name string
		all  []candidate
		want int // without a shuffle, and with the last one first
		last int
	}{
		{"none", nil, -1, -1},
		{"the own one has room", []candidate{{standing: standing{calls: 7, limit: 8}, own: true}, {standing: standing{limit: 8}}}, 0, 0},
		{"the own one has no limit", []candidate{{standing: standing{calls: 70}, own: true}, {standing: standing{limit: 8}}}, 0, 0},
		{"the own one is full", []candidate{{standing: standing{calls: 8, limit: 8}, own: true}, {standing: standing{calls: 7, limit: 8}}}, 1, 1},
		{"the own one starts", []candidate{{standing: standing{state: coming}, own: true}, {standing: standing{calls: 7, limit: 8}}}, 1, 1},
		{"the own one is down", []candidate{{standing: standing{state: down}, own: true}, {standing: standing{calls: 9, limit: 8}}}, 1, 1},
		{"one of two", []candidate{{standing: standing{calls: 5, limit: 8}}, {standing: standing{calls: 4, limit: 8}}}, 1, 1},
		{"by the share of the limit", []candidate{{standing: standing{calls: 1, limit: 2}}, {standing: standing{calls: 2, limit: 8}}}, 1, 1},
		{"two of three", []candidate{{standing: standing{calls: 3, limit: 8}}, {standing: standing{calls: 4, limit: 8}}, {standing: standing{calls: 0, limit: 8}}}, 0, 2},
		{"none that is full", []candidate{{standing: standing{calls: 8, limit: 8}}, {standing: standing{calls: 4, limit: 8}}, {standing: standing{calls: 9, limit: 8}}}, 1, 1},
		{"all are full", []candidate{{standing: standing{calls: 12, limit: 8}, own: true}, {standing: standing{calls: 10, limit: 8}}, {standing: standing{calls: 5, limit: 4}}}, 1, 1},
		{"one is coming", []candidate{{standing: standing{state: down}}, {standing: standing{state: coming, calls: 9}}, {standing: standing{state: down}}}, 1, 1},
		{"all are down", []candidate{{standing: standing{state: down}, own: true}, {standing: standing{state: down}}}, 0, 0},
	} {
		of := func(shuffle func(n int, swap func(i, j int))) int {
			c := choose(tt.all, shuffle)
			return slices.IndexFunc(tt.all, func(other candidate) bool { return c != nil && other == *c })
		}
		expect.Equal(t, of(func(int, func(i, j int)) {}), tt.want, "%s", tt.name)
		expect.Equal(t, of(func(n int, swap func(i, j int)) { swap(0, n-1) }), tt.last, "%s", tt.name)
	}
}

// A nodeLoad is what a node says of a server.
type nodeLoad struct {
	Calls, Limit int
	Heard        uint64
}

// A cell is a replica in tests.
type cell struct {
	state  status.State // "" is gone
	load   nodeLoad
	fails  error // how its requests end
	kept   bool
	policy Policy

	requests []session.Request
}

// cells are the replicas of one service, "a" that of this router if it is there.
type cells map[string]*cell

func (c cells) State(server string) status.State {
	if one := c[server]; one != nil {
		return one.state
	}
	return ""
}

func (c cells) Policy(server string) (p Policy) {
	if one := c[server]; one != nil {
		p = one.policy
	}
	if strings.Contains(server, "@") {
		p.Gateway = "laptop"
		return p
	}
	p.Service = &Service{
		Load: func(replica string) (calls, limit int, heard uint64) {
			l := c[replica].load
			return l.Calls, l.Limit, l.Heard
		},
		Keeps: func(session.Client) bool { return c["a"].kept },
	}
	for _, name := range []string{"a@b", "a@c", "a@d"} {
		if c[name] != nil {
			p.Service.Others = append(p.Service.Others, name)
		}
	}
	if c["a"] != nil {
		p.Service.Own = "a"
	}
	return p
}

func (c cells) Session(_ context.Context, server string, _ session.Client) (session.Session, error) {
	if one := c[server]; one != nil && one.state != "" {
		return cellSession{of: one, name: server}, nil
	}
	return nil, &status.UnavailableError{Server: server}
}

type cellSession struct {
	live
	of   *cell
	name string
}

func (cellSession) Done() <-chan struct{} { return nil }

func (s cellSession) Call(_ context.Context, r session.Request) (json.RawMessage, error) {
	s.of.requests = append(s.of.requests, r)
	if _, node, ok := strings.Cut(s.name, "@"); ok && r.Ran != nil {
		*r.Ran = session.Run{Nodes: []string{node}, Verified: true, Kept: s.of.kept}
	}
	if s.of.fails != nil {
		return nil, s.of.fails
	}
	return json.RawMessage(`{"content":[],"taskId":"7","requestState":"s/t"}`), nil
}

// count returns how many requests each replica got.
func (c cells) count() string {
	var all []string
	for name, one := range c {
		all = append(all, fmt.Sprint(name, " ", len(one.requests)))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func readTool() *registry.NormalizedTool {
	return &registry.NormalizedTool{ID: "a:read", Server: "a", Name: "read", Original: "read_it", InputSchema: json.RawMessage(object), Hints: registry.Hints{ReadOnly: new(true)}}
}

func writeTool() *registry.NormalizedTool {
	t := readTool()
	t.Hints = registry.Hints{}
	return t
}

// Which replicas are called, and what becomes of a call that one of them does not answer.
func TestService(t *testing.T) {
	const ready = status.Ready
	notSent, died := fmt.Errorf("no answer: %w", session.ErrNotSent), fmt.Errorf("it ended: %w", session.ErrClosed)
	full := nodeLoad{Calls: 9, Limit: 8, Heard: 1}
	for _, tt := range []struct {
		name  string
		cells cells
		call  Call
		want  string // requests
		node  string // node_id; "" for a failure
	}{
		{"the own one", cells{"a": {state: ready}, "a@b": {state: ready}}, Call{Tool: writeTool()}, "a 1, a@b 0", "node"},
		{"the own one is not running", cells{"a": {state: status.Failed}, "a@b": {state: ready}}, Call{Tool: writeTool()}, "a 0, a@b 1", "b"},
		{"none of its own", cells{"a@b": {state: ready}}, Call{Tool: writeTool()}, "a@b 1", "b"},
		{"one is full", cells{"a@b": {state: ready, load: full}, "a@c": {state: ready}}, Call{Tool: writeTool()}, "a@b 0, a@c 1", "c"},
		{"one is gone", cells{"a@b": {}, "a@c": {state: ready, load: full}}, Call{Tool: writeTool()}, "a@b 0, a@c 1", "c"},
		{"one takes no call", cells{"a": {state: ready, fails: notSent}, "a@b": {state: ready}}, Call{Tool: writeTool()}, "a 1, a@b 1", "b"},
		{"none takes a call", cells{"a": {state: ready, fails: notSent}, "a@b": {state: ready, fails: notSent}}, Call{Tool: writeTool()}, "a 1, a@b 3", ""},
		{"one ends during a call", cells{"a": {state: ready, fails: died}, "a@b": {state: ready}}, Call{Tool: readTool()}, "a 1, a@b 1", "b"},
		{"one ends during a call with effects", cells{"a": {state: ready, fails: died}, "a@b": {state: ready}}, Call{Tool: writeTool()}, "a 1, a@b 0", ""},
		{"the other node does not want calls again", cells{"a@b": {state: ready, fails: died, policy: Policy{Retry: NeverRetry}}, "a@c": {state: ready, load: full}}, Call{Tool: readTool()}, "a@b 1, a@c 0", ""},
		{"this node does not want calls again", cells{"a": {state: status.Failed, policy: Policy{Retry: NeverRetry}}, "a@b": {state: ready, fails: died}}, Call{Tool: readTool()}, "a 0, a@b 1", ""},
		{"the call is another node's", cells{"a": {state: ready, fails: notSent}, "a@b": {state: ready}}, Call{Tool: writeTool(), Here: true}, "a 3, a@b 0", ""},
		{"the call is another node's, and the server is not running", cells{"a": {state: status.Failed}, "a@b": {state: ready}}, Call{Tool: writeTool(), Here: true}, "a 1, a@b 0", "node"},
		{"a call goes on at a server that is no replica", cells{"a": {state: ready}, "a@b": {state: ready}}, Call{Tool: readTool(), Params: json.RawMessage(`{"requestState":"secret@b/x"}`)}, "a 1, a@b 0", "node"},
		{"the server refuses it", cells{"a": {state: ready, fails: &session.Error{Code: 1}}, "a@b": {state: ready}}, Call{Tool: readTool()}, "a 1, a@b 0", ""},
		{"a call goes on", cells{"a": {state: ready}, "a@b": {state: ready}}, Call{Tool: readTool(), Params: json.RawMessage(`{"requestState":"a@b/x"}`)}, "a 0, a@b 1", "b"},
		{"a call goes on here", cells{"a": {state: ready, load: full}, "a@b": {state: ready}}, Call{Tool: readTool(), Params: json.RawMessage(`{"requestState":"x"}`)}, "a 1, a@b 0", "node"},
		{"a call goes on that no node knows", cells{"a@b": {state: ready}}, Call{Tool: readTool(), Params: json.RawMessage(`{"requestState":"a@c/x"}`)}, "a@b 0", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r, err := newExecutor(registry.New(), tt.cells).Execute(t.Context(), tt.call)
				meta := wire.Member(r.JSON, "_meta")
				node, _ := wire.String(wire.Member(meta, "node_id"))
				if failed := err != nil || r.IsError; failed != (tt.node == "") || !failed && node != tt.node || tt.cells.count() != tt.want {
					t.Fatalf("%s, %v: %s", r.JSON, err, tt.cells.count())
				}
				if server, _ := wire.String(wire.Member(meta, "server")); tt.node != "" && (server != "a" || string(wire.Member(meta, "degraded")) != "false") {
					t.Errorf("_meta is %s", meta)
				}
			})
		})
	}
}

// Another node gets the call under the tool's name in the catalog, with the name of the service for
// its rules. What it gives out comes back to it.
func TestServiceOnAnotherNode(t *testing.T) {
	c := cells{"a": {state: status.Failed}, "a@b": {state: status.Ready}, "a@c": {state: status.Ready}}
	e := newExecutor(registry.New(), c)
	c["a@c"].state = status.Failed
	r, err := e.Execute(t.Context(), Call{Tool: readTool()})
	if err != nil || r.IsError {
		t.Fatalf("%s, %v", r.JSON, err)
	}
	q := c["a@b"].requests[0]
	if name, _ := wire.String(wire.Member(q.Params, "name")); name != "read" || q.Origin == nil || q.Origin.As != "a" {
		t.Errorf("the node got %s for %+v", q.Params, q.Origin)
	}
	c["a@c"].state, c["a"].state = status.Ready, status.Ready
	for _, tt := range []struct{ method, key, given string }{{"tasks/get", taskID, "7"}, {"prompts/get", requestState, "s/t"}} {
		marked := wire.Member(r.JSON, tt.key)
		result, err := e.Relay(t.Context(), "a", session.Request{Method: tt.method, Params: wire.SetMember([]byte(`{}`), tt.key, marked)})
		all := c["a@b"].requests
		last := all[len(all)-1]
		if got, _ := wire.String(wire.Member(last.Params, tt.key)); err != nil || last.Method != tt.method || got != tt.given {
			t.Errorf("%s with %s: %s as %s, %v", tt.method, marked, got, last.Method, err)
		}
		if got := wire.Member(result, tt.key); string(got) != string(marked) {
			t.Errorf("%s: then it is %s, before %s", tt.method, got, marked)
		}
	}
	expect.Equal(t, c.count(), "a 0, a@b 3, a@c 0")
}

// Requests other than calls go to another replica too if one does not take them.
func TestRelayToService(t *testing.T) {
	notSent := fmt.Errorf("no answer: %w", session.ErrNotSent)
	c := cells{"a": {state: status.Ready, fails: notSent}, "a@b": {state: status.Ready}}
	e := newExecutor(registry.New(), c)
	if _, err := e.Relay(t.Context(), "a", session.Request{Method: "resources/read", Origin: new(session.Origin)}); err != nil || c.count() != "a 1, a@b 1" {
		t.Errorf("%v: %s", err, c.count())
	}
	expect.Equal(t, c["a@b"].requests[0].Origin.As, "a", "the node gets")
	if _, err := e.Relay(t.Context(), "a", session.Request{Method: "resources/read", Here: true}); !errors.Is(err, session.ErrNotSent) || c.count() != "a 4, a@b 1" {
		t.Errorf("of another node: %v: %s", err, c.count())
	}
	if _, err := e.Relay(t.Context(), "a", session.Request{Method: "tasks/get", Params: json.RawMessage(`{"taskId":"1"}`)}); !errors.Is(err, session.ErrNotSent) || c.count() != "a 7, a@b 1" {
		t.Errorf("a task of this node: %v: %s", err, c.count())
	}
}

// A client that has a session of its own with a replica stays there, until it leaves or the replica
// can't be called.
func TestClientStaysWithReplica(t *testing.T) {
	full := nodeLoad{Calls: 99, Limit: 8, Heard: 1}
	c := cells{"a@b": {state: status.Ready, load: full, kept: true}, "a@c": {state: status.Failed}}
	e := newExecutor(registry.New(), c)
	home := &stayer{}
	call := func(want string) {
		t.Helper()
		for range 5 {
			if r, err := e.Execute(t.Context(), Call{Tool: writeTool(), From: home}); err != nil || r.IsError {
				t.Fatalf("%s, %v", r.JSON, err)
			}
		}
		expect.Equal(t, c.count(), want)
	}
	call("a@b 5, a@c 0")
	c["a@c"].state = status.Ready
	call("a@b 10, a@c 0")
	e.ForgetClient(home)
	call("a@b 10, a@c 5")
	e.kept.put(home, "a", "a@b")
	c["a@b"].state = status.Failed
	call("a@b 10, a@c 10")
}

// A stayer is a client with a session.
type stayer struct{ session.Client }

func (s *stayer) Home() session.Client { return s }

// What a node says of its load counts our own calls, which are known better since.
func TestLoadOfReplica(t *testing.T) {
	c := cells{"a@b": {state: status.Ready, load: nodeLoad{Calls: 5, Limit: 8, Heard: 1}}}
	e := newExecutor(registry.New(), c)
	s := c.Policy("a").Service
	l := e.limiters.of("a@b")
	for _, step := range []struct {
		active int
		load   nodeLoad
		want   int
	}{
		{3, nodeLoad{Calls: 5, Limit: 8, Heard: 1}, 5}, // two are others'
		{6, nodeLoad{Calls: 5, Limit: 8, Heard: 1}, 8},
		{0, nodeLoad{Calls: 5, Limit: 8, Heard: 1}, 2},
		{4, nodeLoad{Calls: 1, Limit: 8, Heard: 2}, 4},
	} {
		l.active, c["a@b"].load = step.active, step.load
		if one, ok := e.candidateOf(s, "a@b"); !ok || one.calls != step.want || one.limit != 8 {
			t.Errorf("%+v: %+v, %v", step, one, ok)
		}
	}
}
