package discovery

import (
	"encoding/json"
	"strings"
	"testing"

	validation "github.com/mcp-metarouter/metarouter/internal/schema"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// Clients see keys of properties that APIs of models take, and the server gets its own, at any depth.
func TestKeys(t *testing.T) {
	long := strings.Repeat("x", 70)
	for name, tc := range map[string]struct{ schema, shown, sent, own string }{
		"signs": {
			`"properties":{"StartTime<":{},"filter[status]":{},"$top":{}},"required":["$top"]`,
			`"properties":{"StartTime_":{},"filter_status_":{},"_top":{}},"required":["_top"]`,
			`{"StartTime_":1,"filter_status_":2,"_top":3}`, `{"StartTime<":1,"filter[status]":2,"$top":3}`,
		},
		"next to the name": {
			`"properties":{"a b":{},"a_b":{},"a/b":{}}`,
			`"properties":{"a_b_3017194d":{},"a_b":{},"a_b_b7758960":{}}`,
			`{"a_b":1,"a_b_3017194d":2,"a_b_b7758960":3}`, `{"a_b":1,"a b":2,"a/b":3}`,
		},
		"long": {
			`"properties":{"` + long + `":{}}`,
			`"properties":{"` + long[:50] + `_b8aace8e":{}}`,
			`{"` + long[:50] + `_b8aace8e":1}`, `{"` + long + `":1}`,
		},
		"not of this alphabet": {`"properties":{"名前":{}}`, `"properties":{"__":{}}`, `{"__":{"__":1}}`, `{"名前":{"__":1}}`},
		"none":                 {`"properties":{"":{}}`, `"properties":{"_5feceb66":{}}`, `{"_5feceb66":1}`, `{"":1}`},
		"nested": {
			`"properties":{"a":{"items":{"anyOf":[{"properties":{"b c":{"type":"object","properties":{"$d":{}}}}},{"type":"null"}]}},"any":{}}`,
			`"properties":{"a":{"items":{"anyOf":[{"properties":{"b_c":{"type":"object","properties":{"_d":{}}}}},{"type":"null"}]}},"any":{}}`,
			`{"a":[{"b_c":{"_d":1}}],"any":{"b_c":{"_d":2}},"b_c":3}`, `{"a":[{"b c":{"$d":1}}],"any":{"b_c":{"_d":2}},"b_c":3}`,
		},
		"references": {
			`"properties":{"a b":{"$ref":"#"},"c":{"$ref":"#/properties/a%20b"},"d":{"$ref":"#/$defs/x y"}},"$defs":{"x y":{"properties":{"e f":{}}}}`,
			`"properties":{"a_b":{"$ref":"#"},"c":{"$ref":"#/properties/a_b"},"d":{"$ref":"#/$defs/x y"}},"$defs":{"x y":{"properties":{"e_f":{}}}}`,
			`{"a_b":{"a_b":{"c":{"a_b":{}}}},"d":{"e_f":1,"a_b":2}}`, `{"a b":{"a b":{"c":{"a b":{}}}},"d":{"e f":1,"a_b":2}}`,
		},
		"rules": {
			`"properties":{"a b":{}},"propertyNames":{"maxLength":3,"pattern":" "},"dependentRequired":{"a b":["c","a b"]},"dependentSchemas":{"a b":{"required":["a b"]}}`,
			`"properties":{"a_b":{}},"dependentRequired":{"a_b":["c","a_b"]},"dependentSchemas":{"a_b":{"required":["a_b"]}}`,
			`{"a_b":1}`, `{"a b":1}`,
		},
		"the server's own": {`"properties":{"a b":{},"c":{}}`, `"properties":{"a_b":{},"c":{}}`, `{"a b":1,"c":{"a_b":2}}`, `{"a b":1,"c":{"a_b":2}}`},
		"both":             {`"properties":{"a b":{}}`, `"properties":{"a_b":{}}`, `{"a b":1,"a_b":2}`, `{"a b":1,"a_b":2}`},
		"taken":            {`"properties":{"a-b.c_D9":{},"_":{}}`, `"properties":{"a-b.c_D9":{},"_":{}}`, `{"_":1}`, `{"_":1}`},
	} {
		tool, err := Normalize("s", json.RawMessage(`{"name":"t","inputSchema":{"type":"object",`+tc.schema+`}}`), nil)
		expect.OK(t, err)
		expect.Equal(t, string(tool.InputSchema), `{"type":"object",`+tc.shown+`}`, "%s", name)
		expect.Equal(t, string(wire.Member(tool.Definition, "inputSchema")), string(tool.InputSchema), "%s", name)
		compared := tool.ServerSchema
		if compared == nil {
			compared = tool.InputSchema
		}
		compiled, err := validation.Compile(compared)
		expect.OK(t, err, "%s", name)
		keys := validation.NewKeys(tool.Keys)
		own, err := keys.Own(compiled, json.RawMessage(tc.sent))
		expect.OK(t, err, "%s", name)
		expect.Equal(t, string(own), tc.own, "%s", name)
		if name != "the server's own" && name != "both" {
			shown, err := keys.Shown(compiled, own)
			expect.OK(t, err, "%s", name)
			expect.Equal(t, string(shown), tc.sent, "%s", name)
		}
	}
}
