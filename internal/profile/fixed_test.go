package profile

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// fixing returns a profile that fixes arguments, from {"pattern": {"property": value}}.
func fixing(t *testing.T, arguments string) config.Profile {
	t.Helper()
	var p config.Profile
	expect.OK(t, json.Unmarshal([]byte(arguments), &p.Arguments))
	return p
}

func TestFixed(t *testing.T) {
	const schema = `{"type":"object","properties":{"owner":{"type":"string"},"repo":{"type":"string"}},"required":["owner"]}`
	for _, test := range []struct {
		name      string
		arguments []string // of each profile
		schema    string
		want      string // "" for no arguments
	}{
		{"a pattern of the ID", []string{`{"github:*": {"owner": "acme"}}`}, schema, `{"owner":"acme"}`},
		{"a pattern of the name", []string{`{"list_*": {"owner": "acme"}}`}, schema, `{"owner":"acme"}`},
		{"another server", []string{`{"gitlab:*": {"owner": "acme"}}`}, schema, ""},
		{"a property that the schema does not declare", []string{`{"*": {"owner": "acme", "team": 1}}`}, schema, `{"owner":"acme"}`},
		{"only such a property", []string{`{"*": {"team": 1}}`}, schema, ""},
		{"a value that is not a string", []string{`{"*": {"owner": {"id": [1, null]}}}`}, schema, `{"owner":{"id":[1,null]}}`},
		{"the name before a pattern", []string{`{"github:list_*_for_all": {"owner": "long"}, "list_issues": {"owner": "name"}}`}, schema, `{"owner":"name"}`},
		{"the longest pattern", []string{`{"*": {"owner": "a", "repo": "r"}, "list_*": {"owner": "b"}}`}, schema, `{"owner":"b","repo":"r"}`},
		{"two profiles", []string{`{"*": {"owner": "acme"}}`, `{"*": {"repo": "x"}}`}, schema, `{"owner":"acme","repo":"x"}`},
		{"two profiles that agree", []string{`{"*": {"owner": ["acme"]}}`, `{"*": {"owner": [ "acme" ]}}`}, schema, `{"owner":["acme"]}`},
		{"in a branch", []string{`{"*": {"owner": "acme"}}`}, `{"type":"object","allOf":[{"anyOf":[{"properties":{"owner":{}}}]}]}`, `{"owner":"acme"}`},
		{"in a definition", []string{`{"*": {"owner": "acme"}}`}, `{"type":"object","$ref":"#/$defs/a~1b","$defs":{"a/b":{"properties":{"owner":{}}}}}`, `{"owner":"acme"}`},
		{"for another argument", []string{`{"*": {"owner": "acme"}}`}, `{"type":"object","properties":{"repo":{}},"dependentSchemas":{"repo":{"properties":{"owner":{}}}}}`, `{"owner":"acme"}`},
		{"a definition that refers to itself", []string{`{"*": {"owner": "acme"}}`}, `{"type":"object","allOf":[{"$ref":"#"}]}`, ""},
		{"a property of a property", []string{`{"*": {"owner": "acme"}}`}, `{"type":"object","properties":{"x":{"properties":{"owner":{}}}}}`, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			all := profiles{}
			var chosen []string
			for i, arguments := range test.arguments {
				name := string(rune('a' + i))
				all[name], chosen = fixing(t, arguments), append(chosen, name)
			}
			r := Of(all, chosen...)
			x := tool("github", "list_issues", takes(test.schema))
			expect.Equal(t, string(r.Fixed(x)), test.want, "fixed")
			expect.Equal(t, r.Tool(x), true, "the tool is allowed")
			x.ServerSchema, x.InputSchema = x.InputSchema, json.RawMessage(`{"type":"object"}`)
			expect.Equal(t, string(r.Fixed(x)), test.want, "of a tool with fixed arguments")
		})
	}
}

// TestConflict has two profiles fix one argument to different values: no call can obey both.
func TestConflict(t *testing.T) {
	all := profiles{"a": fixing(t, `{"*": {"owner": "acme"}}`), "b": fixing(t, `{"*": {"owner": "other"}}`)}
	r := Of(all, "a", "b")
	declares := tool("s", "x", takes(`{"type":"object","properties":{"owner":{}}}`))
	expect.Equal(t, r.Tool(declares), false, "the tool is allowed")
	if got := r.Fixed(declares); got != nil {
		t.Errorf("fixed are %s, want none", got)
	}
	expect.Equal(t, r.Tool(tool("s", "x")), true, "a tool without the argument is allowed")
}

// TestManyBranches has schemas with a search that must end, and in which a server may hide a property.
func TestManyBranches(t *testing.T) {
	for schema, want := range map[string]bool{
		`{"$ref":"#/$defs/a","$defs":{"a":{"anyOf":[{"$ref":"#/$defs/a"},{"$ref":"#"}]}}}`:                            false,
		`{"allOf":[` + strings.Repeat(`{},`, maxBranches) + `{"properties":{"x":{}}}]}`:                               true,
		`{"allOf":[` + strings.Repeat(`{},`, maxBranches/2) + `{"properties":{"y":{}}}]}`:                             false,
		strings.Repeat(`{"allOf":[`, maxBranches+1) + `{"properties":{"x":{}}}` + strings.Repeat(`]}`, maxBranches+1): true,
		`{"allOf":[` + strings.Repeat(`{},`, maxBranches) + `{}]}`:                                                    true,
		`[]`: false,
	} {
		expect.Equal(t, declares(json.RawMessage(schema))("x"), want, "%s declares x", schema)
	}
}
