package admin

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestMergeIsBounded(t *testing.T) {
	var pairs []string
	for i := range 8000 {
		pairs = append(pairs, fmt.Sprintf("a%d=1", i))
	}
	if merged, err := Merge(json.RawMessage(`{}`), json.RawMessage(`{}`), pairs[:200]); err != nil || len(merged) < 200 {
		t.Errorf("200 pairs: %s, %v", merged, err)
	}
	if _, err := Merge(json.RawMessage(`{}`), json.RawMessage(`{}`), pairs); err == nil || !strings.Contains(err.Error(), "8000 KEY=VALUE pairs are too many; give at most 200") {
		t.Error(err)
	}
}

func TestSample(t *testing.T) {
	for _, test := range []struct{ schema, args, want string }{
		{`{}`, ``, "metarouter call a:b"},
		{`{"properties":{"value":{"type":"number"},"unit":{"enum":["km","mi"]}},"required":["value","unit"]}`, ``, "metarouter call a:b value=1 unit=km"},
		{`{"properties":{"q":{"type":"string"},"n":{"type":"integer"}},"required":["q","n"]}`, `{"q":"it's here"}`, `metarouter call a:b 'q=it'\''s here' n=1`},
		{`{"properties":{"l":{"type":"array","items":{"type":"string"}}},"required":["l"]}`, ``, `metarouter call a:b 'l=["text"]'`},
		{`{"properties":{"id":{"type":"string","examples":["5"]}},"required":["id"]}`, ``, "metarouter call a:b id=5"},
		{`{"properties":{"id":{"const":"5"}},"required":["id"]}`, ``, `metarouter call a:b --args '{"id":"5"}'`},
	} {
		expect.Equal(t, Sample("a:b", json.RawMessage(test.schema), json.RawMessage(test.args)), test.want, "%s with %s", test.schema, test.args)
	}
}
