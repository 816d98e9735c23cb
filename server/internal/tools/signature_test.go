package tools

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/registry"
)

func TestSignature(t *testing.T) {
	for schema, want := range map[string]string{
		`{"type":"object"}`: "f()",
		`{"properties":{"b":{"type":"integer","default":5},"a":{"type":"string"}},"required":["a"]}`: "f(a: string, b?: int=5)",
		`{"properties":{"l":{"type":"array","items":{"type":"boolean"}},"e":{"enum":["x",1]}}}`:      `f(l?: bool[], e?: "x"|1)`,
		`{"properties":{"u":{"type":["string","null"]},"any":true,"ref":{"$ref":"#/x"}}}`:            "f(u?: string|null, any?: any, ref?: any)",
		`{"properties":{"long":{"type":"string","default":"` + strings.Repeat("x", 50) + `"}}}`:      "f(long?: string)",
		`{"properties":5,"required":"no"}`:      "f()",
		`{"properties":{"x":{"type":"array"}}}`: "f(x?: any[])",
	} {
		if got := signature(&registry.NormalizedTool{Name: "f", InputSchema: json.RawMessage(schema)}); got != want {
			t.Errorf("%s: %s, want %s", schema, got, want)
		}
	}
}

func TestOutputType(t *testing.T) {
	many := `{"type":"object","properties":{`
	for i := range 20 {
		many += strings.Repeat(",", min(i, 1)) + `"p` + strings.Repeat("x", i) + `":{"type":"string"}`
	}
	for schema, want := range map[string]string{
		``: "f()",
		`{"type":"object","properties":{"note":{"type":"string"},"id":{"type":"integer"}},"required":["id"]}`: "f() → {id: int, note?: string}",
		`{"type":"object","properties":{"hits":{"type":"array","items":{"type":"object"}}}}`:                  "f() → {hits?: object[]}",
		`{"type":"object"}`:                          "f() → object",
		`{"type":"array","items":{"type":"string"}}`: "f() → string[]",
		`{"$ref":"#/x"}`:                             "f()",
		many + `}}`:                                  "f() → {p?: string, px?: string, pxx?: string, pxxx?: string, pxxxx?: string, pxxxxx?: string, pxxxxxx?: string, pxxxxxxx?: string, …}",
		`{"properties":{"` + strings.Repeat("y", 500) + `":{}}}`: "f() → {" + strings.Repeat("y", maxWord) + "…?: any}",
	} {
		definition := `{"name":"f"}`
		if schema != "" {
			definition = `{"name":"f","outputSchema":` + schema + `}`
		}
		if got := signature(&registry.NormalizedTool{Name: "f", Definition: json.RawMessage(definition)}); got != want {
			t.Errorf("%s: %s, want %s", schema, got, want)
		}
	}
}
