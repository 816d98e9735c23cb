package schema

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// Members that a schema declares get its own keys, in a bounded number of steps.
func TestOwn(t *testing.T) {
	keys := NewKeys(map[string]string{"a_b": "a b"})
	const inner = `{"properties":{"a b":{}}}`
	for name, tc := range map[string]struct{ schema, sent, own string }{
		"by any pattern": {`{"patternProperties":{"^(?=(x+)+$)":` + inner + `}}`, `{"x":{"a_b":1},"y":{"a_b":1},"a_b":1}`, `{"x":{"a b":1},"y":{"a b":1},"a_b":1}`},
		"additional":     {`{"properties":{"c":{}},"additionalProperties":` + inner + `}`, `{"c":{"a_b":1},"d":{"a_b":1}}`, `{"c":{"a_b":1},"d":{"a b":1}}`},
		"unevaluated":    {`{"allOf":[{}],"unevaluatedProperties":` + inner + `}`, `{"d":{"a_b":1}}`, `{"d":{"a b":1}}`},
		"required":       {`{"required":["a b"],"properties":{"c":{"dependentRequired":{"a b":["d"]}}}}`, `{"a_b":1,"c":{"a_b":2}}`, `{"a b":1,"c":{"a b":2}}`},
	} {
		s, err := Compile(json.RawMessage(tc.schema))
		expect.OK(t, err, "%s", name)
		own, err := keys.Own(s, json.RawMessage(tc.sent))
		expect.OK(t, err, "%s", name)
		expect.Equal(t, string(own), tc.own, "%s", name)
	}
	s, err := Compile(json.RawMessage(`{"properties":{"a b":{}},"additionalProperties":{"allOf":[` + many(3_000, `{"title":"#n"}`) + `]}}`))
	expect.OK(t, err)
	for n, costs := range map[int]bool{10: false, 1_000: true} {
		value := `{"a_b":1,` + many(n, `"x#n":{}`) + `,"a_b":1}`
		own, err := keys.Own(s, json.RawMessage(value))
		expect.Equal(t, errors.Is(err, ErrCostly), costs, "%d members: %v", n, err)
		expect.Equal(t, string(own) == value, costs, "%d members", n)
	}
}
