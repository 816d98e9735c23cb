package server

import (
	"slices"
	"testing"

	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// Answers name all servers that have a tool, and ask which one is meant if that is not known.
func TestPlaces(t *testing.T) {
	r := newFake(tool("files-a", "read"), tool("files-b", "read"), tool("git", "log"))
	all := r.Tools()
	places := []*registry.NormalizedTool{all[1], all[0]}
	r.ranking = selector.Ranking{Sure: true, Candidates: []selector.Candidate{{Tool: all[1], Confidence: 0.9, Places: places, Ambiguous: true}, {Tool: all[2], Confidence: 0.1}}}
	type placed struct {
		ID        string   `json:"id"`
		Tool      string   `json:"tool"`
		Places    []string `json:"places"`
		OtherIDs  []string `json:"other_ids"`
		Ambiguous bool     `json:"ambiguous"`
		Ran       bool     `json:"ran"`
		Reason    string   `json:"reason"`
	}
	s := newAlone(r, Options{})
	found := calls[struct{ Tools []placed }](t, s, "find_tools", `{"query":"read"}`).StructuredContent.Tools
	if len(found) != 2 || found[0].ID != "files-b:read" || !slices.Equal(found[0].Places, []string{"files-b", "files-a"}) || !slices.Equal(found[0].OtherIDs, []string{"files-a:read"}) || !found[0].Ambiguous {
		t.Errorf("found %+v", found)
	}
	if len(found) == 2 && (found[1].Places != nil || found[1].Ambiguous) {
		t.Errorf("a tool of one server: %+v", found[1])
	}

	r.selection = selector.Selection{Tool: all[1], Confidence: 0.9, Places: places, Ambiguous: true}
	p := calls[placed](t, s, "route_task", `{"task":"read","arguments":{"n":1},"allow_destructive":true}`).StructuredContent
	if p.Ran || !p.Ambiguous || p.Tool != "files-b:read" || !slices.Equal(p.Places, []string{"files-b", "files-a"}) {
		t.Errorf("proposed %+v", p)
	}
	for _, part := range []string{"files-b, files-a", "name the server in the task", "files-b:read, files-a:read with call_tool"} {
		expect.Contains(t, p.Reason, part)
	}
	expect.Equal(t, string(r.query.Arguments), `{"n":1}`, "searched with the arguments")
}
