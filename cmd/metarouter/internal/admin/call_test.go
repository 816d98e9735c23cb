package admin

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
)

// --yes is named where it helps, and where it does not help alone, also the missing arguments.
func TestWhyNotRun(t *testing.T) {
	tool := &registry.NormalizedTool{ID: "a:b", InputSchema: json.RawMessage(`{"properties":{"path":{"type":"string"}},"required":["path"]}`)}
	const unsure = "the confidence 0.34 is below 0.50"
	for _, test := range []struct {
		routed    selector.Routed
		sure, yes bool
		want      string
	}{
		{selector.Routed{Unsure: unsure}, true, false, "a:b was not run: " + unsure + "; --yes permits it"},
		{selector.Routed{Unsure: unsure, Missing: []string{"path"}}, true, false, "a:b was not run: it needs the arguments path; " + unsure + "; --yes permits it. For example:\n  metarouter call a:b path=some/path"},
		{selector.Routed{Unsure: unsure, Missing: []string{"path"}}, true, true, "a:b was not run: it needs the arguments path. For example:\n  metarouter call a:b path=some/path"},
		{selector.Routed{Unsure: unsure}, false, false, "a:b was not run: " + unsure},
		{selector.Routed{Unsure: unsure, Ambiguous: true}, true, false, "a:b was not run: several servers have this tool (a, c), and neither"},
	} {
		test.routed.Selection = selector.Selection{Tool: tool, Sure: test.sure, Places: []*registry.NormalizedTool{{Server: "a"}, {Server: "c"}}}
		got := whyNotRun(test.routed, test.yes)
		if got != test.want && !(test.routed.Ambiguous && strings.HasPrefix(got, test.want) && !strings.Contains(got, "--yes")) {
			t.Errorf("%+v: %q, want %q", test.routed, got, test.want)
		}
	}
}
