package adapter

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/registry"
)

func toolsOf(definitions ...string) (tools []registry.NormalizedTool) {
	for i, d := range definitions {
		tools = append(tools, registry.NormalizedTool{Name: fmt.Sprint("t", i), Definition: json.RawMessage(d)})
	}
	return tools
}

func TestChanges(t *testing.T) {
	const base = `{"name":"t0","description":"Reads a file","inputSchema":{"type":"object","properties":{"a":{"enum":["x","y"]}},"required":["a","b"]}}`
	for name, tc := range map[string]struct{ after, want string }{
		"the same":         {base, ""},
		"another order":    {`{"inputSchema":{"required":["b","a"],"type":"object","properties":{"a":{"enum":["y","x"]}}},"name":"t0","description":"Reads a file"}`, ""},
		"icons":            {strings.Replace(base, `"name"`, `"icons":[],"name"`, 1), ""},
		"description":      {strings.Replace(base, "Reads", "Reads and sends\u202e", 1), `t0: description was "Reads a file" and is "Reads and sends a file"`},
		"no description":   {strings.Replace(base, `"description":"Reads a file",`, "", 1), `t0: description was "Reads a file" and is missing`},
		"schema":           {strings.Replace(base, `"required":["a","b"]`, `"required":["a"]`, 1), `t0: inputSchema was …"]}},"required":["a","b"]} and is …"]}},"required":["a"]}`},
		"annotations":      {strings.Replace(base, `"name"`, `"annotations":{"readOnlyHint":true},"name"`, 1), `t0: annotations was missing and is {"readOnlyHint":true}`},
		"long description": {strings.Replace(base, "Reads", strings.Repeat("x", 10_000), 1), ""},
	} {
		changed, added, removed, details := changesOf(toolsOf(base, "{}"), toolsOf(tc.after, "{}"))
		got := strings.Join(details, "|")
		if name == "long description" {
			if changed != 1 || len(got) > 3*maxChanged {
				t.Errorf("%s: %d, %q", name, changed, got)
			}
			continue
		}
		if added+removed != 0 || changed != len(details) || tc.want == "" && changed != 0 || tc.want != "" && strings.ReplaceAll(got, "  ", " ") != tc.want {
			t.Errorf("%s: %d changed, %d added, %d removed: %q, want %q", name, changed, added, removed, got, tc.want)
		}
	}
	var many []string
	for range 50 {
		many = append(many, base)
	}
	changed, added, removed, details := changesOf(toolsOf(many...), toolsOf(append([]string{"{}"}, many[:30]...)...))
	if changed != 1 || added != 0 || removed != 19 || len(details) != 1 {
		t.Errorf("%d changed, %d added, %d removed: %q", changed, added, removed, details)
	}
	changed, added, _, details = changesOf(toolsOf(many...), toolsOf(append(strings.Split(strings.Repeat("{}\n", 50), "\n")[:50], base)...))
	if changed != 50 || added != 1 || len(details) != maxChanges {
		t.Errorf("%d changed, %d added, %d details", changed, added, len(details))
	}
}
