package selector

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// Given arguments leave out tools that lack one, and raise those that need no others.
func TestGivenArguments(t *testing.T) {
	s, r := filled(t, "math:unrelated Sends mail")
	object := func(properties, rest string) json.RawMessage {
		return json.RawMessage(`{"type":"object","properties":{` + properties + `}` + rest + `}`)
	}
	_, err := r.Replace("notes", registry.Offer{Tools: []registry.NormalizedTool{
		{ID: "notes:add_observations", Server: "notes", Name: "add_observations", Description: "Add new observations to existing entities", InputSchema: object(`"observations":{"type":"array"}`, `,"required":["observations"]`)},
		{ID: "notes:get-sum", Server: "notes", Name: "get-sum", Description: "Returns the sum of two numbers", InputSchema: object(`"a":{"type":"number"},"b":{"type":"number"}`, `,"required":["a","b"]`)},
		{ID: "notes:add_file", Server: "notes", Name: "add_file", Description: "Add a file", InputSchema: object(`"file_path":{"type":"string"},"mode":{"type":"string"}`, `,"required":["file_path"]`)},
		{ID: "notes:add_anything", Server: "notes", Name: "add_anything", Description: "Keeps a thing", InputSchema: object(`"thing":{"type":"string"}`, `,"additionalProperties":true`)},
	}})
	expect.OK(t, err)
	find := func(args string) Ranking {
		found, err := s.Find(t.Context(), Query{Task: "add it", Arguments: json.RawMessage(args)})
		expect.OK(t, err)
		return found
	}
	first := func(f Ranking) string { return f.Candidates[0].Tool.Name }

	without := find("")
	if first(without) == "get-sum" {
		t.Fatal("the task alone finds get-sum, so arguments show nothing")
	}
	for _, args := range []string{`{"a":17,"b":25}`, `{"a":17,"b":25,"guess":1}`, `{"B":25,"A":17}`} {
		if f := find(args); first(f) != "get-sum" || f.Candidates[0].Confidence < 0.5 {
			t.Errorf("with %s: %s, confidence %.2f", args, first(f), f.Candidates[0].Confidence)
		} else if slices.ContainsFunc(f.Candidates, func(c Candidate) bool { return c.Tool.Name == "add_observations" || c.Tool.Name == "add_file" }) {
			t.Errorf("with %s: a tool that takes none of them is a candidate", args)
		} else if !slices.ContainsFunc(f.Candidates, func(c Candidate) bool { return c.Tool.Name == "add_anything" }) {
			t.Errorf("with %s: a tool that takes any argument is none", args)
		}
	}
	if f := find(`{"filePath":"x"}`); first(f) != "add_file" || f.Candidates[0].Features != find(`{"file-path":"x"}`).Candidates[0].Features {
		t.Errorf("with filePath: %s", first(f))
	}
	for _, args := range []string{`{}`, `null`, `[1]`, `{"guess":1}`, `{"a":1,"file_path":"x","thing":""}`} {
		if f := find(args); args != `{"a":1,"file_path":"x","thing":""}` && first(f) != first(without) {
			t.Errorf("with %s, which no tool takes: %s, want %s", args, first(f), first(without))
		} else if len(f.Candidates) == 0 {
			t.Errorf("with %s, which no tool takes together: no candidates", args)
		}
	}
}
