package scope

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// The schema for clients once "owner" is fixed.
func TestFixed(t *testing.T) {
	for _, tc := range []struct{ name, schema, want string }{
		{"properties and required", `{"type":"object", "properties":{"owner":{"type":"string","x-mcp-header":"Owner"}, "repo":{"type":"string"}}, "required":["owner","repo"], "additionalProperties":false}`,
			`{"type":"object", "properties":{"repo":{"type":"string"}}, "required":["repo"], "additionalProperties":false}`},
		{"no other", `{"type":"object","properties":{"owner":{}},"required":["owner"],"minProperties":1}`, `{"type":"object","properties":{}}`},
		{"default and examples", `{"properties":{"owner":{},"a":{}},"default":{"owner":1,"a":2},"examples":[{"owner":1,"a":3},{"a":4}]}`,
			`{"properties":{"a":{}},"default":{"a":2},"examples":[{"a":3},{"a":4}]}`},
		{"dependencies", `{"properties":{"owner":{},"a":{}},"dependentRequired":{"ow\u006eer":["a"]},"dependencies":{"a":["owner"]},"dependentSchemas":{"a":{"required":["b"]}}}`,
			`{"properties":{"a":{}},"dependentSchemas":{"a":{"required":["b"]}}}`},
		{"branches", `{"anyOf":[{"required":["owner"]},{"required":["org"]}],"oneOf":[{"allOf":[{"properties":{"owner":{}}}]}],"properties":{"owner":{},"org":{}}}`,
			`{"anyOf":[{},{"required":["org"]}],"oneOf":[{"allOf":[{"properties":{}}]}],"properties":{"org":{}}}`},
		{"conditions", `{"properties":{"owner":{},"a":{}},"not":{"required":["owner","a"]},"if":{"properties":{"owner":{"const":1}}},"then":{"required":["a"]},"else":{"required":["b"]}}`,
			`{"properties":{"a":{}}}`},
		{"conditions on others", `{"properties":{"owner":{},"a":{}},"not":{"required":["b"]},"if":{"required":["a"]},"then":{"required":["c"]},"else":true}`,
			`{"properties":{"a":{}},"not":{"required":["b"]},"if":{"required":["a"]},"then":{"required":["c"]},"else":true}`},
		{"references", `{"$ref":"#/$defs/in~1put","$defs":{"in/put":{"properties":{"owner":{},"a":{}},"required":["owner"],"allOf":[{"$ref":"#/$defs/more"},{"$ref":"#"},{"$ref":"other.json"}]},"more":{"properties":{"owner":{}}},"unused":{"properties":{"owner":{}}}}}`,
			`{"$ref":"#/$defs/in~1put","$defs":{"in/put":{"properties":{"a":{}},"allOf":[{"$ref":"#/$defs/more"},{"$ref":"#"},{"$ref":"other.json"}]},"more":{"properties":{}},"unused":{"properties":{"owner":{}}}}}`},
		{"nested values are others", `{"properties":{"owner":{},"a":{"type":"object","properties":{"owner":{}},"required":["owner"]}}}`,
			`{"properties":{"a":{"type":"object","properties":{"owner":{}},"required":["owner"]}}}`},
		{"wrong types", `{"properties":7,"required":{"owner":1},"allOf":{},"default":"owner","examples":"owner","dependentRequired":[],"not":true}`,
			`{"properties":7,"required":{"owner":1},"allOf":{},"default":"owner","examples":"owner","dependentRequired":[],"not":true}`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tool := &registry.NormalizedTool{
				ID: "s:t", Server: "s", Name: "t", Description: "does it", InputSchema: json.RawMessage(tc.schema),
				Definition: json.RawMessage(`{"name":"t", "inputSchema":` + tc.schema + `,"_meta":{"owner":1}}`),
				Flat:       json.RawMessage(`{"name":"t","inputSchema":` + tc.schema + `}`),
			}
			before := *tool
			got := withFixed(tool, json.RawMessage(`{"owner":"acme"}`))
			expect.Equal(t, string(got.InputSchema), tc.want, "the schema")
			expect.Equal(t, string(got.Definition), `{"name":"t", "inputSchema":`+tc.want+`,"_meta":{"owner":1}}`, "the definition")
			expect.Equal(t, string(got.Flat), `{"name":"t","inputSchema":`+tc.want+`}`, "the flat definition")
			if string(got.ServerSchema) != tc.schema || string(got.Fixed) != `{"owner":"acme"}` || got.ID != "s:t" || got.Description != "does it" {
				t.Errorf("got %+v", got)
			}
			if string(tool.InputSchema) != string(before.InputSchema) || string(tool.Definition) != string(before.Definition) {
				t.Error("the tool itself was changed")
			}
		})
	}
}

// A server chooses its schemas.
func FuzzFixed(f *testing.F) {
	f.Add(`{"properties":{"owner":{},"a":{}},"required":["owner"],"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"not":{"required":["owner"]}}}}`)
	f.Add(`{"dependentRequired":{"owner":["b"],"b":["owner"]},"dependencies":{"a":{"properties":{"owner":1}}},"$ref":"#/$ref/x"}`)
	f.Add(`{"properties":{"\u006fwner":{}},"required":["\u006fwner"]}`)
	f.Fuzz(func(t *testing.T, schema string) {
		if !wire.IsObject([]byte(schema)) || !wire.Valid([]byte(schema)) || !json.Valid([]byte(schema)) {
			return
		}
		got := withFixed(&registry.NormalizedTool{InputSchema: []byte(schema), Definition: []byte(`{"inputSchema":` + schema + `}`)}, []byte(`{"owner":1}`))
		if !json.Valid(got.InputSchema) || !json.Valid(got.Definition) {
			t.Fatalf("%s became %s", schema, got.InputSchema)
		}
		if wire.Member(wire.Member(got.InputSchema, "properties"), "owner") != nil || strings.Contains(string(wire.Member(got.InputSchema, "required")), `"owner"`) && wire.IsArray(wire.Member(got.InputSchema, "required")) && allStrings(wire.Member(got.InputSchema, "required")) {
			t.Fatalf("%s became %s", schema, got.InputSchema)
		}
	})
}

func allStrings(list []byte) bool {
	var all []string
	return json.Unmarshal(list, &all) == nil
}
