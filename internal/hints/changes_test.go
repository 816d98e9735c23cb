package hints

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestDiff(t *testing.T) {
	const base = `{"name":"t0","description":"Reads a file","inputSchema":{"type":"object","properties":{"a":{"enum":["x","y"]}},"required":["a","b"]}}`
	for name, tc := range map[string]struct{ after, want string }{
		"the same":       {base, ""},
		"another order":  {`{"inputSchema":{"required":["b","a"],"type":"object","properties":{"a":{"enum":["y","x"]}}},"name":"t0","description":"Reads a file"}`, ""},
		"icons":          {strings.Replace(base, `"name"`, `"icons":[],"name"`, 1), ""},
		"description":    {strings.Replace(base, "Reads", "Reads and sends\u202e", 1), `description was "Reads a file" and is "Reads and sends a file"`},
		"no description": {strings.Replace(base, `"description":"Reads a file",`, "", 1), `description was "Reads a file" and is missing`},
		"schema":         {strings.Replace(base, `"required":["a","b"]`, `"required":["a"]`, 1), `inputSchema was …"]}},"required":["a","b"]} and is …"]}},"required":["a"]}`},
		"annotations":    {strings.Replace(base, `"name"`, `"annotations":{"readOnlyHint":true},"name"`, 1), `annotations was missing and is {"readOnlyHint":true}`},
	} {
		got := strings.Join(DefinitionChanges(json.RawMessage(base), json.RawMessage(tc.after), 160), "|")
		expect.Equal(t, strings.ReplaceAll(got, "  ", " "), tc.want, "%s: the difference", name)
	}
	long := strings.Replace(base, "Reads", strings.Repeat("x", 10_000), 1)
	if got := strings.Join(DefinitionChanges(json.RawMessage(base), json.RawMessage(long), 160), "|"); got == "" || len(got) > 480 {
		t.Errorf("the difference of a long description is %q", got)
	}
}
