package main

import (
	"encoding/json"
	"testing"

	"github.com/mcp-metarouter/metarouter/registry"
)

func TestSampleCall(t *testing.T) {
	for _, test := range []struct{ schema, args, want string }{
		{`{}`, ``, "metarouter call a:b"},
		{`{"properties":{"value":{"type":"number"},"unit":{"enum":["km","mi"]}},"required":["value","unit"]}`, ``, "metarouter call a:b value=1 unit=km"},
		{`{"properties":{"q":{"type":"string"},"n":{"type":"integer"}},"required":["q","n"]}`, `{"q":"it's here"}`, `metarouter call a:b 'q=it'\''s here' n=1`},
		{`{"properties":{"l":{"type":"array","items":{"type":"string"}}},"required":["l"]}`, ``, `metarouter call a:b 'l=["text"]'`},
		{`{"properties":{"id":{"type":"string","examples":["5"]}},"required":["id"]}`, ``, "metarouter call a:b id=5"},
		{`{"properties":{"id":{"const":"5"}},"required":["id"]}`, ``, `metarouter call a:b --args '{"id":"5"}'`},
	} {
		tool := &registry.NormalizedTool{ID: "a:b", InputSchema: json.RawMessage(test.schema)}
		if got := sampleCall(tool, json.RawMessage(test.args)); got != test.want {
			t.Errorf("%s with %s: %s, want %s", test.schema, test.args, got, test.want)
		}
	}
}

// A number says how sure an answer is, and a dash that there is nothing to be sure of.
func TestShownConfidence(t *testing.T) {
	for confidence, want := range map[float64]string{0: "–", 0.009: "–", 0.012: "0.01", 0.189: "0.18", 0.499: "0.49", 0.5: "0.50", 1: "1.00"} {
		if got := shownConfidence(confidence); got != want {
			t.Errorf("%v: %s, want %s", confidence, got, want)
		}
	}
}
