package discovery

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// APIs of models take the schemas that clients give them; the schemas that the server declares and that arguments are compared with stay.
func TestForAPIs(t *testing.T) {
	for _, tc := range []struct{ name, schema, want string }{
		{"nothing to change", `"properties":{"a":{"type":"string"}},"required":["a"]`, ""},
		{"no properties", `"additionalProperties":false`, `"additionalProperties":false,"properties":{}`},
		{"texts of no type", `"properties":{"a":{"enum":["x"]},"b":{"enum":[1]}}`, `"properties":{"a":{"enum":["x"],"type":"string"},"b":{"enum":[1]}}`},
		{"definitions", `"properties":{"a":{"$ref":"#/definitions/X"}},"definitions":{"X":{"type":"null"}}`, `"properties":{"a":{"$ref":"#/$defs/X"}},"$defs":{"X":{"type":"null"}}`},
		{"a property", `"properties":{"a":{"properties":{"b":{"$ref":"#/properties/a"}}}}`, `"properties":{"a":{"properties":{"b":{"$ref":"#/$defs/a"}}}},"$defs":{"a":{"properties":{"b":{"$ref":"#/$defs/a"}}}}`},
		{"next to a reference", `"properties":{"a":{"$ref":"#/$defs/X","title":"T"},"b":{"$ref":"#/$defs/X","description":"D"}},"$defs":{"X":{}}`, `"properties":{"a":{"title":"T","anyOf":[{"$ref":"#/$defs/X"}]},"b":{"description":"D","anyOf":[{"$ref":"#/$defs/X"}]}},"$defs":{"X":{}}`},
		{"the root", `"properties":{"a":{"$ref":"#"}},"$defs":{"X":{}}`, `"properties":{"a":{"$ref":"#/$defs/schema0"}},"$defs":{"X":{},"schema0":{"type":"object","properties":{"a":{"$ref":"#/$defs/schema0"}}}}`},
		{"required and not declared", `"properties":{"a":{"required":["b"]},"c":{"anyOf":[{"required":["d"]}]}},"required":["a","e f"]`, `"properties":{"a":{"required":["b"],"properties":{"b":{}}},"c":{"anyOf":[{"required":["d"],"properties":{"d":{}}}]}},"required":["a"]`},
		{"a reference of the root", `"$ref":"#/$defs/A","$defs":{"A":{"properties":{"a":{"type":"null"}}}}`, `"$defs":{"A":{"properties":{"a":{"type":"null"}}}},"properties":{"a":{"type":"null"}}`},
		{"not of the root", `"properties":{},"not":{"required":["a"]}`, `"properties":{},"description":"Rule: not {\"required\":[\"a\"]}."`},
		{"the definitions as a schema", `"properties":{"a":{"$ref":"#/$defs"}},"$defs":{"X":{}}`, ""},
		{"an anchor", `"properties":{"a":{"$anchor":"k"},"b":{"$ref":"#/properties/a"}}`, `"properties":{"a":{},"b":{"$ref":"#/$defs/a"}},"$defs":{"a":{}}`},
		{"too much to copy", `"properties":{"X":{"const":"` + strings.Repeat("x", maxCopied) + `"},"a":{"$ref":"#/properties/X"}}`, ""},
		{"a name that is taken", `"properties":{"X":{"type":"null"},"a":{"$ref":"#/properties/X"}},"$defs":{"X":{}}`, `"properties":{"X":{"type":"null"},"a":{"$ref":"#/$defs/schema0"}},"$defs":{"X":{},"schema0":{"type":"null"}}`},
	} {
		raw := `{"name":"t","inputSchema":{"type":"object",` + tc.schema + `}}`
		got, err := Normalize("s", json.RawMessage(raw), nil)
		expect.OK(t, err)
		if tc.want != "" {
			tc.want = `{"type":"object",` + tc.want + `}`
		}
		expect.Equal(t, string(wire.Member(got.Flat, "inputSchema")), tc.want, "%s", tc.name)
		expect.Equal(t, string(got.Definition), raw, "%s", tc.name)
	}
}
