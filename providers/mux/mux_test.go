package mux

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/adapter/functions"
	"github.com/mcp-metarouter/metarouter/internal/content"
	"github.com/mcp-metarouter/metarouter/internal/inprocess"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

func TestMain(m *testing.M) {
	adapter.Embed(adapter.Options{}) // for the program of docs/go.md
	mcptest.ServeIfAsked()
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/blevesearch/bleve_index_api.AnalysisWorker"))
}

type sum struct {
	A    int    `json:"a" jsonschema:"the first number"`
	B    int    `json:"b"`
	Note string `json:"note,omitempty"`
}

type total struct {
	Sum int `json:"sum"`
}

func add(_ context.Context, in sum) (total, error) { return total{in.A + in.B}, nil }

// provider returns a provider of functions that is closed with the test.
func provider(t *testing.T, name string, o functions.Options) *functions.Provider {
	f := functions.New(name, o)
	t.Cleanup(func() {
		expect.OK(t, f.Close(), "Close")
	})
	return f
}

// A stub is a provider of another author: some tools, and the outcomes
// of calls.
type stub struct {
	name  string
	call  func(ctx context.Context, c selector.Call) (selector.Result, error)
	close error
	sick  bool // all that it does is to panic

	mu      sync.Mutex // guards the fields below
	tools   []*registry.NormalizedTool
	changed chan struct{}
	closed  int
}

// of returns a provider of these tools, "server:name", each with its result.
func of(name string, ids ...string) *stub {
	s := &stub{name: name, changed: make(chan struct{})}
	s.offer(ids...)
	s.call = func(_ context.Context, c selector.Call) (selector.Result, error) {
		return selector.Result{JSON: content.Text(name+" did "+c.Tool.ID+string(c.Arguments), nil, false), Tool: c.Tool}, nil
	}
	return s
}

func (s *stub) offer(ids ...string) {
	var tools []*registry.NormalizedTool
	for _, id := range ids {
		server, tool, _ := strings.Cut(id, ":")
		tools = append(tools, &registry.NormalizedTool{ID: id, Server: server, Name: tool, Description: "Do " + tool, InputSchema: json.RawMessage(`{"type":"object"}`)})
	}
	s.put(tools...)
}

func (s *stub) put(tools ...*registry.NormalizedTool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tools = tools
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *stub) fails(err error) *stub {
	s.call = func(context.Context, selector.Call) (selector.Result, error) {
		return selector.Result{JSON: content.Text(err.Error(), nil, true), IsError: true, Err: err}, nil
	}
	return s
}

// each changes each tool.
func (s *stub) each(f func(*registry.NormalizedTool)) *stub {
	for _, t := range s.tools {
		f(t)
	}
	return s
}

func (s *stub) ill() {
	if s.sick {
		panic("I feel sick")
	}
}

func (s *stub) Name() string { return s.name }
func (s *stub) Tools() []*registry.NormalizedTool {
	s.ill()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tools
}
func (s *stub) FindByCapability(string) []*registry.NormalizedTool { return nil }
func (s *stub) Select(context.Context, selector.Query) (selector.Selection, error) {
	return selector.Selection{}, nil
}
func (s *stub) Execute(ctx context.Context, c selector.Call) (selector.Result, error) {
	s.ill()
	return s.call(ctx, c)
}
func (s *stub) Health(context.Context) adapter.Health {
	s.ill()
	return adapter.Health{Name: s.name, State: adapter.Up, Tools: len(s.tools)}
}
func (s *stub) Changed() <-chan struct{} {
	s.ill()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}
func (s *stub) Close() error {
	s.ill()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed++
	return s.close
}

func mux(t *testing.T, providers ...adapter.ProviderAdapter) *Mux {
	t.Helper()
	m, err := New("all", providers...)
	expect.OK(t, err)
	t.Cleanup(func() { m.Close() })
	return m
}

func ids(tools []*registry.NormalizedTool) string {
	var all []string
	for _, t := range tools {
		all = append(all, t.ID)
	}
	return strings.Join(all, " ")
}

// until waits until the provider has these tools.
func until(t *testing.T, p adapter.ProviderAdapter, want string) {
	t.Helper()
	for changed := p.Changed(); ids(p.Tools()) != want; changed = p.Changed() {
		<-changed
	}
}

// IDs are the same in whatever order things come.
func TestMuxIDs(t *testing.T) {
	for _, tc := range []struct {
		providers map[string]string // name -> tools
		want      string
	}{
		{map[string]string{"a": "x:1 x:2", "b": "y:1"}, "x:1 x:2 y:1"},
		{map[string]string{"a": "x:1", "b": "x:1 y:1", "c": "z:1"}, "a/x:1 b/x:1 y:1 z:1"},
		{map[string]string{"a": "x:1", "b": "x:2"}, "a/x:1 b/x:2"},
		{map[string]string{"a": "x:1", "b": "a/x:1"}, "b/a/x:1 x:1"},
		{map[string]string{"a": "x:1", "b": "x:1 a/x:1 q/x:1"}, "a/x:1 b/a/x:1 b/x:1 q/x:1"},
	} {
		for _, order := range [][]string{{"a", "b", "c"}, {"c", "b", "a"}, {"b", "a", "c"}} {
			var all []adapter.ProviderAdapter
			for _, name := range order {
				all = append(all, of(name))
			}
			m := mux(t, all...)
			for i := range all { // in another order than in the Mux
				p := all[len(all)-1-i].(*stub)
				p.offer(strings.Fields(tc.providers[p.name])...)
			}
			until(t, m, tc.want)
			for _, tool := range m.Tools() {
				r, err := m.Execute(t.Context(), selector.Call{Tool: tool})
				owner, _ := wire.String(wire.Member(r.Meta(), "provider"))
				if err != nil || r.Tool != tool || !strings.HasSuffix(r.Text(), ":"+tool.Name+"{}") && !strings.HasSuffix(r.Text(), ":"+tool.Name) {
					t.Errorf("%s: %s, %v", tool.ID, r.JSON, err)
				}
				again, ok := m.Tool(owner + "/" + strings.TrimPrefix(tool.ID, owner+"/"))
				if !ok || again != tool {
					t.Errorf("%s is not known as that of %s", tool.ID, owner)
				}
			}
		}
	}
	if _, err := New("all", of("a"), nil); err == nil {
		t.Error("a provider that is none is taken")
	}
	for _, names := range [][]string{{"a", "a"}, {""}, {"a/b"}, {"a:b"}} {
		var all []adapter.ProviderAdapter
		for _, name := range names {
			all = append(all, of(name))
		}
		if _, err := New("all", all...); err == nil {
			t.Errorf("%q are taken", names)
		}
	}
}

// Tools that change are followed, and their users told; unchanged ones stay the
// same.
func TestMuxFollows(t *testing.T) {
	f, g := provider(t, "f", functions.Options{}), of("g", "g:x")
	m := mux(t, f, g)
	changed := m.Changed()
	x, _ := m.Tool("g:x")
	expect.OK(t, functions.Add(f, functions.Function{Name: "add", Description: "Add two numbers.", Capabilities: []string{"sums"}}, add))
	<-changed
	if ids(m.Tools()) != "f:add g:x" || ids(m.FindByCapability("sums")) != "f:add" {
		t.Errorf("%s", ids(m.Tools()))
	}
	if y, _ := m.Tool("g:x"); y != x {
		t.Error("a tool that did not change is another one")
	}
	changed = m.Changed()
	f.Remove("add")
	<-changed
	expect.Equal(t, ids(m.Tools()), "g:x")
}

// One ranking over all: the scores are the same as in one router with all the tools.
func TestMuxRanks(t *testing.T) {
	one, two, all := provider(t, "one", functions.Options{}), provider(t, "two", functions.Options{}), provider(t, "one", functions.Options{})
	for _, f := range []*functions.Provider{one, all} {
		expect.OK(t, functions.Add(f, functions.Function{Name: "add_numbers", Description: "Add two numbers."}, add))
		expect.OK(t, functions.Add(f, functions.Function{Name: "read_file", Description: "Read a file from the disk."}, add))
	}
	expect.OK(t, functions.Add(two, functions.Function{Name: "send_mail", Description: "Send a mail to somebody."}, add))
	m := mux(t, one, two)
	q := selector.Query{Task: "read the file notes.txt"}
	s, err := m.Select(t.Context(), q)
	if err != nil || s.Tool == nil || s.Tool.ID != "one:read_file" || !strings.HasPrefix(adapter.Why(t.Context(), m, q, s), "one:read_file, confidence 0.") {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err = m.Select(t.Context(), selector.Query{Task: "send a mail to Ada"}); err != nil || s.Tool == nil || s.Tool.ID != "two:send_mail" {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err = m.Select(t.Context(), selector.Query{Task: "xyzzy"}); err != nil || !s.Abstained || adapter.Why(t.Context(), m, q, selector.Selection{Abstained: true}) != "no tool fits the task" {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestMuxFailover(t *testing.T) {
	down := fmt.Errorf("it is down: %w", session.ErrNotSent)
	died := fmt.Errorf("it died: %w", session.ErrClosed)
	reads := func(t *registry.NormalizedTool) { t.Hints.ReadOnly = new(true) }
	doubted := func(t *registry.NormalizedTool) {
		t.Hints.ReadOnly, t.Doubt = new(true), "its name says that it deletes"
	}
	repeats := func(t *registry.NormalizedTool) { t.Hints.Idempotent = new(true) }
	destroys := func(t *registry.NormalizedTool) { t.Hints.Destructive = new(true) }
	odd := of("b", "y:find") // does something, and breaks the rule of how to say that it failed
	odd.call = func(context.Context, selector.Call) (selector.Result, error) {
		return selector.Result{}, errors.New("out of paper")
	}
	oddly := func(s *stub) *stub { s.call = odd.call; return s }
	mute := of("a", "x:find")
	mute.call = func(context.Context, selector.Call) (selector.Result, error) {
		return selector.Result{Err: down}, nil
	}
	sick := of("a", "x:find")
	for _, tc := range []struct {
		name      string
		providers []adapter.ProviderAdapter // the first has the tool
		text      string                    // in the result
		path      string
		failed    bool
	}{
		{"all is well", []adapter.ProviderAdapter{of("a", "x:find"), of("b", "y:find")}, "a did x:find", `["local"]`, false},
		{"it is down", []adapter.ProviderAdapter{of("a", "x:find").fails(down), of("b", "y:other", "y:Find")}, "b did y:Find", `["local","x:find","y:Find"]`, false},
		{"two are", []adapter.ProviderAdapter{of("a", "x:find").fails(down), of("b", "y:find").fails(down), of("c", "z:find")}, "c did z:find", `["local","x:find","y:find","z:find"]`, false},
		{"all are", []adapter.ProviderAdapter{of("a", "x:find").fails(down), of("b", "y:find").fails(down)}, "x:find: it is down: not sent; y:find: it is down: not sent", `["local","x:find","y:find"]`, true},
		{"nobody has such a tool", []adapter.ProviderAdapter{of("a", "x:find").fails(down), of("b", "y:seek")}, "it is down", "", true},
		{"nobody knows what it did", []adapter.ProviderAdapter{of("a", "x:find").fails(died), of("b", "y:find")}, "it died", "", true},
		{"but it only reads", []adapter.ProviderAdapter{of("a", "x:find").fails(died).each(reads), of("b", "y:find").each(reads)}, "b did y:find", `["local","x:find","y:find"]`, false},
		{"but its hint is doubted", []adapter.ProviderAdapter{of("a", "x:find").fails(died).each(doubted), of("b", "y:find").each(reads)}, "it died", "", true},
		{"what is doubted is not tried elsewhere", []adapter.ProviderAdapter{of("a", "x:find").fails(down).each(doubted), of("b", "y:find").each(reads)}, "it is down", "", true},
		{"the other's hint is doubted", []adapter.ProviderAdapter{of("a", "x:find").fails(down).each(reads), of("b", "y:find").each(doubted)}, "it is down", "", true},
		{"the next is not to be repeated", []adapter.ProviderAdapter{of("a", "x:find").fails(died).each(repeats), of("b", "y:find").fails(died), of("c", "z:find")}, "x:find: it died: session closed; y:find: it died", `["local","x:find","y:find"]`, true},
		{"and the other does more", []adapter.ProviderAdapter{of("a", "x:find").fails(down).each(reads), of("b", "y:find")}, "it is down", "", true},
		{"what destroys is not tried elsewhere", []adapter.ProviderAdapter{of("a", "x:find").fails(down).each(destroys), of("b", "y:find")}, "it is down", "", true},
		{"the next fails in a way of its own", []adapter.ProviderAdapter{of("a", "x:find").fails(down), odd, of("c", "z:find")}, "y:find: out of paper", `["local","x:find","y:find"]`, true},
		{"the first does", []adapter.ProviderAdapter{oddly(of("a", "x:find")), of("b", "y:find")}, "out of paper", "", true},
		{"but it only reads", []adapter.ProviderAdapter{oddly(of("a", "x:find")).each(reads), of("b", "y:find").each(reads)}, "b did y:find", `["local","x:find","y:find"]`, false},
		{"it says nothing", []adapter.ProviderAdapter{mute, of("b", "y:seek")}, "it is down: not sent", "", true},
		{"it panics", []adapter.ProviderAdapter{sick, of("b", "y:find")}, `provider "a" panicked: I feel sick`, "", true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			m := mux(t, tc.providers...)
			tool, ok := m.Tool("x:find")
			if !ok {
				t.Fatal("no tool")
			}
			sick.sick = true
			defer func() { sick.sick = false }()
			r, err := m.Execute(t.Context(), selector.Call{Tool: tool, Arguments: json.RawMessage(`{"max_items":3}`)})
			if err != nil || r.IsError != tc.failed || (r.Err != nil) != tc.failed || !strings.Contains(r.Text(), tc.text) {
				t.Errorf("%s, %v", r.JSON, err)
			}
			path := string(wire.Member(r.Meta(), "execution_path"))
			if tc.path == `["local"]` {
				path = tc.path // the provider says it, if it is one of ours
			}
			if path != tc.path && tc.path != "" || string(wire.Member(r.Meta(), "degraded")) == "true" != strings.Contains(tc.path, ",") {
				t.Errorf("_meta %s", r.Meta())
			}
		})
	}
}

// A provider that panics is down, and nothing else happens.
func TestMuxOfTheSick(t *testing.T) {
	a, b := of("a", "x:find"), of("b", "y:find")
	b.close = errors.New("it is stuck")
	a.sick = true
	m, err := New("all", a, b)
	expect.OK(t, err)
	expect.Equal(t, ids(m.Tools()), "y:find")
	h := m.Health(t.Context())
	if h.State != adapter.Degraded || h.Err() != nil || h.String() != "all is degraded: a is down: it panicked: I feel sick" {
		t.Errorf("%+v", h)
	}
	err = m.Close()
	if err == nil || !strings.Contains(err.Error(), `close provider "a": it panicked`) || !strings.Contains(err.Error(), `close provider "b": it is stuck`) || b.closed != 1 {
		t.Errorf("%v", err)
	}
	if r, err := adapter.Execute(t.Context(), m, "y:find", nil); err != nil || !r.IsError || !errors.Is(r.Err, inprocess.ErrClosed) {
		t.Errorf("after Close: %s, %v", r.JSON, err)
	}
	expect.Equal(t, m.Health(t.Context()).State, adapter.Down)
}

// A provider in a provider in a provider.
func TestMuxNests(t *testing.T) {
	inner := mux(t, of("a", "x:find"), of("b", "x:find", "y:find"))
	outer, err := New("outer", inner, of("c", "x:find", "y:find"))
	expect.OK(t, err)
	defer outer.Close()
	expect.Equal(t, ids(outer.Tools()), "a/x:find all/y:find b/x:find c/y:find x:find")
	r, err := adapter.Execute(t.Context(), outer, "b/x:find", nil)
	if err != nil || string(wire.Member(r.Meta(), "provider")) != `"all/b"` || r.Tool.ID != "b/x:find" {
		t.Errorf("%s, %v", r.JSON, err)
	}
}

// Close waits for calls under way, and Health not for a provider that hangs.
func TestMuxHangs(t *testing.T) {
	f, under, ended := functions.New("f", functions.Options{}), make(chan bool), make(chan selector.Result)
	expect.OK(t, functions.Add(f, functions.Function{Name: "wait"}, func(ctx context.Context, _ struct{}) (string, error) {
		close(under)
		<-ctx.Done()
		return "", ctx.Err()
	}))
	m, err := New("all", f, &hanging{stub: of("h"), until: make(chan struct{})})
	expect.OK(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if h := m.Health(ctx); h.State == adapter.Up || h.Parts[1].Reason != "it did not answer in time" {
		t.Errorf("%+v", h)
	}
	go func() {
		r, _ := adapter.Execute(context.Background(), m, "f:wait", nil)
		ended <- r
	}()
	<-under
	closed := make(chan error)
	go func() { closed <- m.Close() }()
	if r := <-ended; !r.IsError || r.Err != inprocess.ErrEnded {
		t.Errorf("%s", r.JSON)
	}
	expect.OK(t, <-closed)
	expect.OK(t, m.Close())
}

// A hanging provider does not answer how it is until it is closed.
type hanging struct {
	*stub
	until chan struct{}
	once  sync.Once
}

func (h *hanging) Health(context.Context) adapter.Health { <-h.until; return adapter.Health{} }
func (h *hanging) Close() error                          { h.once.Do(func() { close(h.until) }); return nil }

// Whatever is done at once is done in order: to be run with -race.
func TestMuxAtOnce(t *testing.T) {
	f, g := provider(t, "f", functions.Options{}), provider(t, "g", functions.Options{})
	expect.OK(t, functions.Add(f, functions.Function{Name: "stays", Description: "Add two numbers."}, add))
	m := mux(t, f, g)
	var working sync.WaitGroup
	for i := range 4 {
		working.Go(func() {
			for n := range 20 {
				name := fmt.Sprintf("tool_%d_%d", i, n)
				p := []*functions.Provider{f, g}[n%2]
				if functions.Add(p, functions.Function{Name: name, Description: "Add two numbers."}, add) != nil {
					t.Error("not added")
				}
				r, err := adapter.Execute(t.Context(), m, "f:stays", sum{A: 1, B: n})
				if err != nil || r.IsError {
					t.Errorf("%s, %v", r.JSON, err)
				}
				if _, err := m.Select(t.Context(), selector.Query{Task: "add two numbers"}); err != nil {
					t.Error(err)
				}
				p.Remove(name)
			}
		})
	}
	working.Wait()
	until(t, m, "f:stays")
}

// A change of the catalog, which takes long if it is large, delays no reader.
func TestMuxBusy(t *testing.T) {
	m := mux(t, of("a", "x:find"))
	m.listing.Lock()
	defer m.listing.Unlock()
	if r, err := adapter.Execute(t.Context(), m, "x:find", nil); err != nil || r.IsError || m.Health(t.Context()).State != adapter.Up {
		t.Errorf("%s, %v", r.JSON, err)
	}
}

// A caller that has changed a provider's tools finds them in the Mux at once.
func TestMuxAtTheSameTime(t *testing.T) {
	f := provider(t, "f", functions.Options{})
	inner := mux(t, f)
	outer, err := New("outer", inner, of("g", "g:x"))
	expect.OK(t, err)
	defer outer.Close()
	for n := range 50 {
		name := fmt.Sprintf("tool_%d", n)
		expect.OK(t, functions.Add(f, functions.Function{Name: name, Description: "Add two numbers."}, add))
		if r, err := outer.Execute(t.Context(), selector.Call{Tool: f.Tools()[0], Arguments: json.RawMessage(`{"a":1,"b":2}`)}); err != nil || r.IsError {
			t.Fatalf("%s is not there: %s, %v", name, r.JSON, err)
		}
		if got := ids(outer.Tools()); got != "f:"+name+" g:x" {
			t.Fatalf("%s, not %s", got, name)
		}
		f.Remove(name)
		if found, err := outer.Find(t.Context(), selector.Query{Task: "add two numbers", Capabilities: []string{"math"}}); err != nil || slices.ContainsFunc(found.Candidates, func(c selector.Candidate) bool { return c.Tool.Name == name }) {
			t.Fatalf("%s is still there: %+v, %v", name, found, err)
		}
	}
}
