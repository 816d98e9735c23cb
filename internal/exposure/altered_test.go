package exposure

import (
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestAltered(t *testing.T) {
	tool := func(server, name string) *registry.NormalizedTool {
		return &registry.NormalizedTool{ID: registry.ID(server, name), Server: server, Name: name}
	}
	long := strings.Repeat("l", 60)
	all := []*registry.NormalizedTool{
		tool("a", "same"), tool("b", "same"), tool("a", "own"), tool("a", long), tool("a", "dot.ted"), tool("a__b", "x"), tool("a", "find_tools"),
	}
	for style, want := range map[string][]string{
		Prefixed: {"", "", "", "longer than 47", "clients refuse", `has "__" in it`, ""},
		Bare:     {"several servers have a tool of that name", "several servers", "", "longer than 47", "clients refuse", "", "one of metarouter's own tools"},
	} {
		names := OfTools(all, style, "", "")
		for i, tl := range all {
			got := names.Altered(tl)
			if (got == "") != (want[i] == "") || !strings.Contains(got, want[i]) {
				t.Errorf("%s: %s is %s, since %q, want %q", style, tl.ID, names.Exposed(tl), got, want[i])
			}
		}
	}
	expect.Equal(t, OfTools(nil, Prefixed, "", "").Altered(all[0]), "", "one that is not named")
}
