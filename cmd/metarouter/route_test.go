package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

func TestSplitPairs(t *testing.T) {
	for _, test := range []struct{ args, words, pairs []string }{
		{[]string{"read a file", "path=/x"}, []string{"read a file"}, []string{"path=/x"}},
		{[]string{"convert", "value=5", "to", "miles", "from-unit="}, []string{"convert", "to", "miles"}, []string{"value=5", "from-unit="}},
		{[]string{"x=5"}, []string{"x=5"}, nil},
		{[]string{"open", "https://example.com/?a=b", "5=5", "with a=b", "==", "="}, []string{"open", "https://example.com/?a=b", "5=5", "with a=b", "==", "="}, nil},
	} {
		words, pairs := splitPairs(test.args)
		if !slices.Equal(words, test.words) || !slices.Equal(pairs, test.pairs) {
			t.Errorf("%q: words %q, pairs %q", test.args, words, pairs)
		}
	}
}

// --yes is named where it helps, and where it does not help alone, also what else to give.
func TestWhyNotRun(t *testing.T) {
	tool := &registry.NormalizedTool{ID: "a:b", InputSchema: json.RawMessage(`{"properties":{"path":{"type":"string"}},"required":["path"]}`)}
	const unsure = "the confidence 0.34 is below 0.50"
	for _, test := range []struct {
		routed    selector.Routed
		sure, yes bool
		want      string
	}{
		{selector.Routed{Unsure: unsure}, true, false, "a:b was not run: " + unsure + "; --yes runs it all the same"},
		{selector.Routed{Unsure: unsure, Missing: []string{"path"}}, true, false, "a:b was not run: it needs the arguments path; " + unsure + "; give path, and add --yes. For example:\n  metarouter call a:b path=path/to/file"},
		{selector.Routed{Unsure: unsure, Missing: []string{"path"}}, true, true, "a:b was not run: it needs the arguments path. For example:\n  metarouter call a:b path=path/to/file"},
		{selector.Routed{Unsure: unsure}, false, false, "a:b was not run: " + unsure},
		{selector.Routed{Unsure: unsure, Ambiguous: true}, true, false, "a:b was not run: several servers have this tool (a, c), and neither"},
	} {
		test.routed.Selection = selector.Selection{Tool: tool, Sure: test.sure}
		got := whyNotRun(test.routed, []string{"a", "c"}, test.yes, nil).Error()
		if got != test.want && !(test.routed.Ambiguous && strings.HasPrefix(got, test.want) && !strings.Contains(got, "--yes")) {
			t.Errorf("%+v: %q, want %q", test.routed, got, test.want)
		}
	}
}

// A number says how sure an answer is, and a dash that there is nothing to be sure of.
func TestShownConfidence(t *testing.T) {
	for confidence, want := range map[float64]string{0: "–", 0.009: "–", 0.012: "0.01", 0.189: "0.18", 0.499: "0.49", 0.5: "0.50", 1: "1.00"} {
		if got := shownConfidence(confidence); got != want {
			t.Errorf("%v: %s, want %s", confidence, got, want)
		}
	}
}
