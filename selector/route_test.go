package selector

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestHarmless(t *testing.T) {
	yes, no := new(bool), new(bool)
	*yes = true
	for _, test := range []struct {
		name  string
		hints registry.Hints
		tags  []string
		want  bool
	}{
		{"read-only", registry.Hints{ReadOnly: yes}, nil, true},
		{"read-only that speaks of writing", registry.Hints{ReadOnly: yes}, []string{"write"}, true},
		{"no hints", registry.Hints{}, nil, false},
		{"not read-only", registry.Hints{ReadOnly: no}, nil, false},
		{"not destructive", registry.Hints{Destructive: no}, []string{"search"}, true},
		{"not destructive, yet writes", registry.Hints{Destructive: no}, []string{"files", "write"}, false},
		{"not destructive, yet deletes", registry.Hints{Destructive: no}, []string{"delete"}, false},
		{"not destructive, yet pays", registry.Hints{Destructive: no}, []string{"payment"}, false},
		{"destructive", registry.Hints{Destructive: yes}, nil, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			ok, reason := Harmless(&registry.NormalizedTool{Hints: test.hints, Capabilities: test.tags})
			if ok != test.want || ok == (reason != "") {
				t.Errorf("Harmless = %v, %q; want %v and a reason only against it", ok, reason, test.want)
			}
			if test.tags != nil && !ok && !strings.HasPrefix(reason, "its name or description says that it may ") {
				t.Errorf("the reason is %q", reason)
			}
			ok, reason = Harmless(&registry.NormalizedTool{Hints: test.hints, Capabilities: test.tags, Doubt: "its name says that it deletes"})
			if ok || !strings.Contains(reason, "its name says that it deletes") {
				t.Errorf("doubted: Harmless = %v, %q", ok, reason)
			}
		})
	}
}

func TestBelowThreshold(t *testing.T) {
	for _, test := range []struct {
		confidence, threshold float64
		want                  string
	}{
		{0.5, 0.5, ""}, {0.4999, 0.5, "the confidence 0.49 is below 0.50"}, {0, 0, ""},
	} {
		expect.Equal(t, belowThreshold(test.confidence, test.threshold), test.want, "belowThreshold(%v, %v)", test.confidence, test.threshold)
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
		expect.List(t, Missing(tool, json.RawMessage(args)), want, "Missing(%s)", args)
	}
}

// A fakeProvider selects what a test says, and echoes the arguments of a call.
type fakeProvider struct {
	selections []Selection // one for each search; the last one stays
	plan       []Step
	faults     []string
	unchecked  bool
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

func (p *fakeProvider) Check(_ context.Context, _ *registry.NormalizedTool, args json.RawMessage) Checked {
	return Checked{Arguments: args, Faults: p.faults, Unchecked: p.unchecked}
}

func (p *fakeProvider) Execute(_ context.Context, c Call) (Result, error) {
	p.calls = append(p.calls, c)
	return Result{JSON: c.Arguments, Tool: c.Tool}, nil
}

func TestRoute(t *testing.T) {
	yes := true
	read := &registry.NormalizedTool{ID: "a:read", Hints: registry.Hints{ReadOnly: &yes}, InputSchema: json.RawMessage(`{"required":["path"]}`)}
	write := &registry.NormalizedTool{ID: "a:write"}
	selected := func(t *registry.NormalizedTool) []Selection {
		return []Selection{{Tool: t, Confidence: 0.8, Sure: true}}
	}
	unsure := Selection{Tool: write, Confidence: 0.1}
	none := Selection{Abstained: true}
	args := Call{Arguments: json.RawMessage(`{"path":"x"}`)}
	for _, tc := range []struct {
		name     string
		provider fakeProvider
		request  RouteRequest
		ran      string // the arguments of the call; "" if none was made
		missing  int
		held     string // why it was not safe to run
	}{
		{"runs", fakeProvider{selections: selected(read)}, RouteRequest{Call: args}, `{"path":"x"}`, 0, ""},
		{"dry run", fakeProvider{selections: selected(read)}, RouteRequest{Call: args, DryRun: true}, "", 0, ""},
		{"abstains", fakeProvider{selections: []Selection{none}}, RouteRequest{}, "", 0, ""},
		{"searches again", fakeProvider{selections: []Selection{none, selected(read)[0]}},
			RouteRequest{Call: args, Refresh: func(context.Context) bool { return true }}, `{"path":"x"}`, 0, ""},
		{"nothing new", fakeProvider{selections: []Selection{none, selected(read)[0]}},
			RouteRequest{Call: args, Refresh: func(context.Context) bool { return false }}, "", 0, ""},
		{"plan", fakeProvider{selections: selected(read), plan: []Step{{}, {}}}, RouteRequest{Call: args, Plan: true}, "", 0, ""},
		{"no plan is wanted", fakeProvider{selections: selected(read), plan: []Step{{}, {}}}, RouteRequest{Call: args}, `{"path":"x"}`, 0, ""},
		{"missing", fakeProvider{selections: selected(read)}, RouteRequest{}, "", 1, ""},
		{"typed by the schema", fakeProvider{selections: selected(read)}, RouteRequest{Arguments: func(t *registry.NormalizedTool, _ bool) json.RawMessage {
			return json.RawMessage(`{"path":"of ` + t.ID + `"}`)
		}}, `{"path":"of a:read"}`, 0, ""},
		{"below the threshold", fakeProvider{selections: selected(read)}, RouteRequest{Call: args, Threshold: 0.9}, "", 0, "unsure"},
		{"below the threshold, and allowed", fakeProvider{selections: selected(read)}, RouteRequest{Call: args, Threshold: 0.9, RunUnsure: true}, `{"path":"x"}`, 0, "unsure"},
		{"unsure, and only unsafe is allowed", fakeProvider{selections: selected(read)}, RouteRequest{Call: args, Threshold: 0.9, RunUnsafe: true}, "", 0, "unsure"},
		{"unsafe, and only unsure is allowed", fakeProvider{selections: selected(write)}, RouteRequest{RunUnsure: true}, "", 0, "unsafe"},
		{"both", fakeProvider{selections: selected(write)}, RouteRequest{Threshold: 0.9, RunUnsafe: true}, "", 0, "unsure unsafe"},
		{"both allowed", fakeProvider{selections: selected(write)}, RouteRequest{Threshold: 0.9, RunUnsure: true, RunUnsafe: true}, "{}", 0, "unsure unsafe"},
		{"searches again if it is not sure", fakeProvider{selections: []Selection{unsure, selected(read)[0]}},
			RouteRequest{Call: args, Refresh: func(context.Context) bool { return true }}, `{"path":"x"}`, 0, ""},
		{"unsafe", fakeProvider{selections: selected(write)}, RouteRequest{}, "", 0, "unsafe"},
		{"unsafe, and allowed", fakeProvider{selections: selected(write)}, RouteRequest{RunUnsafe: true}, "{}", 0, "unsafe"},
		{"faults", fakeProvider{selections: selected(read), faults: []string{"no"}}, RouteRequest{Call: args}, `{"path":"x"}`, 0, ""},
		{"faults, strictly", fakeProvider{selections: selected(read), faults: []string{"no"}}, RouteRequest{Call: args, Strict: true}, "", 0, ""},
		{"not checked", fakeProvider{selections: selected(read), unchecked: true}, RouteRequest{Call: args}, `{"path":"x"}`, 0, ""},
		{"not checked, strictly", fakeProvider{selections: selected(read), unchecked: true}, RouteRequest{Call: args, Strict: true}, "", 0, ""},
		{"chosen", fakeProvider{}, RouteRequest{Call: Call{Tool: read}, Threshold: 1}, "{}", 1, ""},
		{"chosen and unsafe", fakeProvider{}, RouteRequest{Call: Call{Tool: write}}, "", 0, "unsafe"},
	} {
		r, err := Route(t.Context(), &tc.provider, tc.request)
		ran := ""
		for _, c := range tc.provider.calls {
			ran += string(c.Arguments)
		}
		var held []string
		if r.Unsure != "" {
			held = append(held, "unsure")
		}
		if r.Unsafe != "" {
			held = append(held, "unsafe")
		}
		if err != nil || ran != tc.ran || r.Ran != (ran != "") || r.Unchecked != tc.provider.unchecked || len(r.Missing) != tc.missing || strings.Join(held, " ") != tc.held {
			t.Errorf("%s: %+v, %v; ran %s", tc.name, r, err, ran)
		}
	}
}
