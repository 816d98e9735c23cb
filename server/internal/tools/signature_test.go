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
