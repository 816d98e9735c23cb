package selector

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/mcp-metarouter/metarouter/registry"
)

func TestMayRun(t *testing.T) {
	yes, no := new(bool), new(bool)
	*yes = true
	for _, test := range []struct {
		name       string
		hints      registry.Hints
		tags       []string
		confidence float64
		want       bool
	}{
		{"read-only", registry.Hints{ReadOnly: yes}, nil, 0.5, true},
		{"read-only that speaks of writing", registry.Hints{ReadOnly: yes}, []string{"write"}, 0.9, true},
		{"read-only, unsure", registry.Hints{ReadOnly: yes}, nil, 0.49, false},
		{"no hints", registry.Hints{}, nil, 1, false},
		{"not read-only", registry.Hints{ReadOnly: no}, nil, 1, false},
		{"not destructive", registry.Hints{Destructive: no}, []string{"search"}, 1, true},
		{"not destructive, yet writes", registry.Hints{Destructive: no}, []string{"files", "write"}, 1, false},
		{"not destructive, yet deletes", registry.Hints{Destructive: no}, []string{"delete"}, 1, false},
		{"not destructive, yet pays", registry.Hints{Destructive: no}, []string{"payment"}, 1, false},
		{"destructive", registry.Hints{Destructive: yes}, nil, 1, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			tool := &registry.NormalizedTool{Hints: test.hints, Capabilities: test.tags}
			ok, reason := mayRun(Selection{Tool: tool, Confidence: test.confidence}, 0.5)
			if ok != test.want || ok == (reason != "") {
				t.Errorf("MayRun = %v, %q; want %v and a reason only against it", ok, reason, test.want)
			}
		})
	}
	if ok, reason := mayRun(Selection{Abstained: true}, 0); ok || reason == "" {
		t.Errorf("nothing selected: MayRun = %v, %q", ok, reason)
	}
}

func TestMissing(t *testing.T) {
	tool := &registry.NormalizedTool{InputSchema: json.RawMessage(`{"type":"object","required":["a","b"]}`)}
	for args, want := range map[string][]string{
		``:                {"a", "b"},
		`{}`:              {"a", "b"},
		`{"b":null}`:      {"a"},
		`{"a":1,"b":"x"}`: nil,
	} {
		if got := Missing(tool, json.RawMessage(args)); !slices.Equal(got, want) {
			t.Errorf("Missing(%s) = %v, want %v", args, got, want)
		}
	}
}

// A fakeProvider selects what a test says, and echoes the arguments of a call.
type fakeProvider struct {
	selections []Selection // one for each search; the last one stays
	plan       []Step
	faults     []string
	calls      []Call
}

func (p *fakeProvider) Select(context.Context, Query) (Selection, error) {
	s := p.selections[0]
	if len(p.selections) > 1 {
		p.selections = p.selections[1:]
	}
	return s, nil
}

func (p *fakeProvider) Plan(context.Context, Query) ([]Step, error) { return p.plan, nil }

func (p *fakeProvider) Check(_ *registry.NormalizedTool, args json.RawMessage) Checked {
	return Checked{Arguments: args, Faults: p.faults}
}

func (p *fakeProvider) Execute(_ context.Context, c Call) (Result, error) {
	p.calls = append(p.calls, c)
	return Result{JSON: c.Arguments, Tool: c.Tool}, nil
}

func TestRoute(t *testing.T) {
	yes := true
	read := &registry.NormalizedTool{ID: "a:read", Hints: registry.Hints{ReadOnly: &yes}, InputSchema: json.RawMessage(`{"required":["path"]}`)}
	write := &registry.NormalizedTool{ID: "a:write"}
	fill := func(filled string, agreed bool) func(context.Context, *registry.NormalizedTool, json.RawMessage, bool) (json.RawMessage, bool) {
		return func(context.Context, *registry.NormalizedTool, json.RawMessage, bool) (json.RawMessage, bool) {
			return json.RawMessage(filled), agreed
		}
	}
	selected := func(t *registry.NormalizedTool) []Selection { return []Selection{{Tool: t, Confidence: 0.8}} }
	none := Selection{Abstained: true}
	args := Call{Arguments: json.RawMessage(`{"path":"x"}`)}
	for _, tc := range []struct {
		name     string
		provider fakeProvider
		request  RouteRequest
		ran      string // the arguments of the call; "" if none was made
		missing  int
		unsafe   bool
	}{
		{"runs", fakeProvider{selections: selected(read)}, RouteRequest{Call: args}, `{"path":"x"}`, 0, false},
		{"dry run", fakeProvider{selections: selected(read)}, RouteRequest{Call: args, DryRun: true}, "", 0, false},
		{"abstains", fakeProvider{selections: []Selection{none}}, RouteRequest{}, "", 0, false},
		{"searches again", fakeProvider{selections: []Selection{none, selected(read)[0]}},
			RouteRequest{Call: args, Refresh: func(context.Context) bool { return true }}, `{"path":"x"}`, 0, false},
		{"nothing new", fakeProvider{selections: []Selection{none, selected(read)[0]}},
			RouteRequest{Call: args, Refresh: func(context.Context) bool { return false }}, "", 0, false},
		{"plan", fakeProvider{selections: selected(read), plan: []Step{{}, {}}}, RouteRequest{Call: args, Plan: true}, "", 0, false},
		{"no plan is wanted", fakeProvider{selections: selected(read), plan: []Step{{}, {}}}, RouteRequest{Call: args}, `{"path":"x"}`, 0, false},
		{"missing", fakeProvider{selections: selected(read)}, RouteRequest{}, "", 1, false},
		{"filled", fakeProvider{selections: selected(read)}, RouteRequest{Fill: fill(`{"path":"y"}`, false)}, `{"path":"y"}`, 0, false},
		{"below the threshold", fakeProvider{selections: selected(read)}, RouteRequest{Call: args, Threshold: 0.9}, "", 0, true},
		{"unsafe", fakeProvider{selections: selected(write)}, RouteRequest{}, "", 0, true},
		{"unsafe, and allowed", fakeProvider{selections: selected(write)}, RouteRequest{RunUnsafe: true}, "{}", 0, true},
		{"unsafe, and agreed to", fakeProvider{selections: selected(write)}, RouteRequest{Fill: fill(`{}`, true)}, "{}", 0, true},
		{"faults", fakeProvider{selections: selected(read), faults: []string{"no"}}, RouteRequest{Call: args}, `{"path":"x"}`, 0, false},
		{"faults, strictly", fakeProvider{selections: selected(read), faults: []string{"no"}}, RouteRequest{Call: args, Strict: true}, "", 0, false},
		{"chosen", fakeProvider{}, RouteRequest{Call: Call{Tool: read}, Threshold: 1}, "{}", 1, false},
		{"chosen and unsafe", fakeProvider{}, RouteRequest{Call: Call{Tool: write}}, "", 0, true},
	} {
		r, err := Route(t.Context(), &tc.provider, tc.request)
		ran := ""
		for _, c := range tc.provider.calls {
			ran += string(c.Arguments)
		}
		if err != nil || ran != tc.ran || r.Ran != (ran != "") || len(r.Missing) != tc.missing || (r.Unsafe != "") != tc.unsafe {
			t.Errorf("%s: %+v, %v; ran %s", tc.name, r, err, ran)
		}
	}
}
