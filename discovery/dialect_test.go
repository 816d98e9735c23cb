package discovery

import (
	"encoding/json"
	"strings"
	"testing"

	validation "github.com/mcp-metarouter/metarouter/internal/schema"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// saysTheSame are schemas of older drafts that can't be compiled, and lose nothing in 2020-12.
var saysTheSame = map[string]bool{
	"an identifier of two": true, "draft 4": true, "draft 4, upper": true, "a tuple with $schema": true, "an empty tuple": true, "draft 3": true,
}

// A schema is shown in JSON Schema 2020-12, as input and as output. Arguments are compared with the server's own, if it can be compiled.
func TestNormalizeDialects(t *testing.T) {
	for _, tc := range []struct{ name, schema, shown string }{
		// references
		{"a definition that is not there", `{"$ref":"#/$defs/Screen"}`, `{}`},
		{"one of draft 7 that is not there", `{"$ref":"#/definitions/X"}`, `{}`},
		{"elsewhere", `{"title":"T","$ref":"https://example.com/schemas/x.json"}`, `{"title":"T"}`},
		{"a file", `{"$ref":"./x.json#/definitions/Y"}`, `{}`},
		{"an anchor that is not there", `{"$ref":"#there"}`, `{}`},
		{"a reference that is no text", `{"$ref":{"a":1}}`, `{}`},
		{"in a negation", `{"not":{"$ref":"#/gone"}}`, `{"description":"Rule: not {}."}`},
		{"no schema", `{"$ref":"#/type"}`, `{}`},
		{"itself", `{"$ref":"#/properties/a"}`, `{}`},
		{"itself, by way of another", `{"anyOf":[{"$ref":"#/properties/a/then"}],"if":{},"then":{"not":{"$ref":"#/properties/a"}}}`, `{"anyOf":[{"$ref":"#/properties/a/then"}],"if":{},"then":{"description":"Rule: not {}."}}`},
		{"a member of itself", `{"anyOf":[{"type":"null"},{"properties":{"not":{"$ref":"#/properties/a"}}}]}`, `{"anyOf":[{"type":"null"},{"properties":{"not":{"$ref":"#/properties/a"}}}]}`},
		{"the root", `{"$ref":"#"}`, `{"$ref":"#"}`},
		{"one that resolves", `{"$ref":"#/$defs/b~1c%20d"}`, `{"$ref":"#/$defs/b~1c%20d"}`},
		{"a recursive one", `{"$ref":"#/$defs/Tree"}`, `{"$ref":"#/$defs/Tree"}`},
		{"an anchor as identifier", `{"$ref":"#tree"}`, `{"$ref":"#/$defs/Tree"}`},
		{"by an identifier", `{"$defs":{"X":{"$id":"https://x/y","$defs":{"z":{}}}},"allOf":[{"$ref":"https://x/y"},{"$ref":"https://x/y#/$defs/z"}]}`,
			`{"$defs":{"X":{"$defs":{"z":{}}}},"allOf":[{"$ref":"#/properties/a/$defs/X"},{"$ref":"#/properties/a/$defs/X/$defs/z"}]}`},
		{"below an identifier", `{"$id":"https://x/y","$ref":"#/$defs/z","$defs":{"z":{}}}`, `{"$ref":"#/properties/a/$defs/z","$defs":{"z":{}}}`},
		{"draft 4's identifier", `{"id":"http://x","type":"string"}`, `{"type":"string"}`},
		{"a dynamic identifier", `{"$dynamicRef":"#tree"}`, `{"$ref":"#/$defs/Tree"}`},
		{"a dynamic identifier of two", `{"$defs":{"x":{"$dynamicAnchor":"q"},"y":{"$dynamicAnchor":"q"}},"$dynamicRef":"#q"}`, `{"$defs":{"x":{},"y":{}}}`},
		{"an identifier of two", `{"$defs":{"x":{"$anchor":"q"},"y":{"$anchor":"q"}}}`, `{"$defs":{"x":{},"y":{}}}`},
		// keywords of older drafts
		{"draft 4", `{"minimum":0,"exclusiveMinimum":true}`, `{"exclusiveMinimum":0}`},
		{"draft 4, upper", `{"exclusiveMaximum":true,"maximum":1e3}`, `{"exclusiveMaximum":1e3}`},
		{"draft 4, false", `{"minimum":0,"exclusiveMinimum":false}`, `{"minimum":0}`},
		{"a tuple", `{"items":[{"type":"string"},{"type":"int"}],"additionalItems":false}`, `{"prefixItems":[{"type":"string"},{"type":"integer"}],"items":false}`},
		{"a tuple with $schema", `{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"string"}]}`, `{"prefixItems":[{"type":"string"}]}`},
		{"an empty tuple", `{"items":[]}`, `{}`},
		{"a list without items", `{"type":["array","null"],"maxItems":3}`, `{"type":["array","null"],"maxItems":3,"items":{}}`},
		{"a condition without effect", `{"if":{"const":1},"properties":{"x":{"then":{"const":1},"else":false}}}`, `{"properties":{"x":{}}}`},
		{"draft 3", `{"type":"object","properties":{"x":{"required":true},"y":{"required":false}}}`, `{"type":"object","properties":{"x":{},"y":{}},"required":["x"]}`},
		{"dependencies of other forms", `{"dependencies":{"a":"b","c":["d","d"],"e":{"title":"T"},"f":3}}`, `{"dependencies":{"a":[],"c":["d"],"e":{"title":"T"},"f":[]}}`},
		{"2019-09", `{"$recursiveAnchor":true,"properties":{"x":{"$recursiveRef":"#"}}}`, `{"properties":{"x":{}}}`},
		// wrong types
		{"PHP's empty object", `{"type":"object","properties":[]}`, `{"type":"object"}`},
		{"PHP, deep", `{"items":{"properties":[],"patternProperties":[]}}`, `{"items":{}}`},
		{"no branches", `{"anyOf":[],"oneOf":null,"allOf":{}}`, `{}`},
		{"a branch", `{"anyOf":[3,{"type":"null"}]}`, `{"anyOf":[{"type":"null"}]}`},
		{"the last branch", `{"anyOf":[{"type":"null"} , 3]}`, `{"anyOf":[{"type":"null"}]}`},
		{"a tuple of others", `{"prefixItems":[3,{},4]}`, `{"prefixItems":[{},{},{}]}`},
		{"a length", `{"minLength":"3","maxLength":-1,"minItems":1.5,"maxItems":2.0}`, `{"maxItems":2.0}`},
		{"null", `{"additionalProperties":null,"enum":null,"required":null,"items":null,"not":null,"title":null}`, `{}`},
		{"others", `{"enum":[],"multipleOf":0,"uniqueItems":"true","required":["a","a"],"$anchor":"1","examples":{}}`, `{}`},
		{"dependencies", `{"dependentRequired":{"a":"b","c":["d","d"],"e":[1]}}`, `{"dependentRequired":{"a":[],"c":["d"],"e":[]}}`},
		{"properties", `{"properties":{"x":null,"y":"string","z":true}}`, `{"properties":{"x":{},"y":{},"z":true}}`},
		{"keywords that come again", `{"type":"string","type":"int","properties":{"x":{},"x":[]}}`, `{"type":"integer","properties":{"x":{}}}`},
		// what stays
		{"names of keywords", `{"$defs":{"$ref":{"type":"string"},"items":{"const":[]},"$id":{}}}`, `{"$defs":{"$ref":{"type":"string"},"items":{"const":[]},"$id":{}}}`},
		{"values", `{"const":{"$ref":"#/x","items":[]},"default":{"id":1},"x-y":null}`, `{"const":{"$ref":"#/x","items":[]},"default":{"id":1},"x-y":null}`},
	} {
		whole := `{"type":"object","properties":{"a":` + tc.schema + `,"b":{}},"$defs":{"b/c d":{},"Tree":{"$anchor":"tree","properties":{"next":{"$ref":"#/$defs/Tree"}}}}}`
		for _, member := range []string{"inputSchema", "outputSchema"} {
			raw := `{"name":"t","` + member + `":` + whole + `}`
			got, err := Normalize("s", json.RawMessage(raw), nil)
			expect.OK(t, err)
			schema := wire.Member(got.Definition, member)
			expect.Equal(t, string(wire.Member(wire.Member(schema, "properties"), "a")), tc.shown, "%s, %s: shown", tc.name, member)
			_, err = validation.Compile(schema)
			expect.OK(t, err, "%s: %s", tc.name, schema)
			notes := strings.Join(got.Repairs, "\n")
			changed := tc.shown != tc.schema
			if _, refused := validation.Compile([]byte(whole)); got.ServerSchema == nil && refused != nil && saysTheSame[tc.name] {
				// arguments are compared with what clients see
			} else if member == "inputSchema" && changed && (got.ServerSchema == nil || !strings.Contains(string(got.ServerSchema), tc.schema)) && !strings.Contains(tc.schema, `"int"`) {
				t.Errorf("%s: compared with %s", tc.name, got.ServerSchema)
			} else if changed && !strings.Contains(tc.name, "identifier") && !strings.Contains(notes, member+".a") {
				t.Errorf("%s: %q", tc.name, got.Repairs)
			}
		}
	}
}

// The root of an outputSchema has no identifier, which may be that of another tool; no schema has an older dialect.
func TestNormalizeOutputRoot(t *testing.T) {
	for root, want := range map[string]string{
		`"$id":"https://x/result"`:                            ``,
		`"$id":"r","properties":{"a":{"$ref":"r#/$defs/b"}}`:  `,"properties":{"a":{"$ref":"#/$defs/b"}}`,
		`"$schema":"http://json-schema.org/draft-07/schema#"`: ``,
		`"$schema":"https://json-schema.org/draft-07/schema"`: ``,
		`"$schema":"http://json-schema.org/draft-04/schema#"`: ``,
		`"$schema":7`: ``,
		`"$schema":"https://json-schema.org/draft/2020-12/schema"`:        `,"$schema":"https://json-schema.org/draft/2020-12/schema"`,
		`"properties":{"a":{"$schema":"http://json-schema.org/schema#"}}`: `,"properties":{"a":{}}`,
	} {
		got, err := Normalize("s", json.RawMessage(`{"name":"t","inputSchema":{"type":"object"},"outputSchema":{"type":"object","$defs":{"b":{}},`+root+`}}`), nil)
		expect.OK(t, err)
		expect.Equal(t, string(wire.Member(got.Definition, "outputSchema")), `{"type":"object","$defs":{"b":{}}`+want+`}`, "%s", root)
		if strings.Contains(root, "$schema") {
			got, err = Normalize("s", json.RawMessage(`{"name":"t","inputSchema":{"type":"object","$defs":{"b":{}},`+root+`}}`), nil)
			expect.OK(t, err)
			expect.Equal(t, string(got.InputSchema), `{"type":"object","$defs":{"b":{}}`+want+`}`, "an input: %s", root)
		}
	}
}
