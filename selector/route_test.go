package selector

import (
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
			ok, reason := MayRun(Selection{Tool: tool, Confidence: test.confidence}, 0.5)
			if ok != test.want || ok == (reason != "") {
				t.Errorf("MayRun = %v, %q; want %v and a reason only against it", ok, reason, test.want)
			}
		})
	}
	if ok, reason := MayRun(Selection{Abstained: true}, 0); ok || reason == "" {
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
