package schema

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A sample has what is required, as the schema names it, and fits the schema.
func TestArguments(t *testing.T) {
	for _, test := range []struct{ schema, args, want string }{
		{`{"type":"object"}`, ``, `{}`},
		{`{"properties":{"a":{"type":"string"},"b":{"type":"string"}},"required":["a"]}`, ``, `{"a":"text"}`},
		{`{"properties":{"a":{"type":"string"},"b":{"type":"integer"}},"required":["b","a"]}`, `{"a":"mine"}`, `{"a":"mine","b":1}`},
		{`{"properties":{"e":{"enum":["x","y"]},"d":{"type":"number","default":7},"c":{"const":"k"},"x":{"type":"string","examples":["Ada","Bo"]}},"required":["e","d","c","x"]}`, ``,
			`{"e":"x","c":"k","x":"Ada"}`},
		{`{"properties":{"n":{"type":"integer","minimum":5},"m":{"type":"number","maximum":0},"f":{"type":"integer","multipleOf":4},"p":{"type":"integer","exclusiveMinimum":3}},"required":["n","m","f","p"]}`, ``,
			`{"n":5,"m":0,"f":4,"p":4}`},
		{`{"properties":{"on":{"type":"boolean"},"z":{"type":["null","string"]},"u":{"anyOf":[{"type":"null"},{"type":"integer"}]}},"required":["on","z","u"]}`, ``,
			`{"on":true,"z":"text","u":1}`},
		{`{"properties":{"l":{"type":"array","items":{"type":"object","properties":{"id":{"type":"string"},"more":{}},"required":["id"]},"minItems":2}},"required":["l"]}`, ``,
			`{"l":[{"id":"text"},{"id":"text"}]}`},
		{`{"properties":{"d":{"type":"string","format":"date"},"m":{"type":"string","format":"email"},"url":{"type":"string"},"path":{"type":"string"}},"required":["d","m","url","path"]}`, ``,
			`{"d":"2026-01-31","m":"name@example.com","url":"https://example.com","path":"some/path"}`},
		{`{"properties":{"s":{"type":"string","minLength":6},"k":{"type":"string","maxLength":2}},"required":["s","k"]}`, ``, `{"s":"textxx","k":"te"}`},
		{`{"properties":{"u":{"type":"string","description":"The unit, such as \"mi\" or \"km\"."},"v":{"type":"string","description":"A name (e.g. 'Ada')."},"w":{"type":"string","description":"Words, e.g. \"\u001b[31m\""},"x":{"type":"string","description":"A \"word\"."}},"required":["u","v","w","x"]}`, ``,
			`{"u":"mi","v":"Ada","w":"text","x":"text"}`},
		{`{"properties":{"u":{"type":"string","description":"Such as \"miles\".","maxLength":2}},"required":["u"]}`, ``, `{"u":"mi"}`},
		{`{"properties":{"r":{"$ref":"#/$defs/a~1b"}},"required":["r"],"$defs":{"a/b":{"type":"object","properties":{"n":{"type":"integer"}},"required":["n"]}}}`, ``, `{"r":{"n":1}}`},
	} {
		got := ExampleArguments(json.RawMessage(test.schema), json.RawMessage(test.args))
		if string(got) != test.want {
			t.Errorf("%s with %s: %s, want %s", test.schema, test.args, got, test.want)
		}
		compiled, err := Compile(json.RawMessage(test.schema))
		expect.OK(t, err)
		if faults, excused, err := compiled.Judge(t.Context(), "arguments", got); err != nil || len(faults) > 0 && !excused {
			t.Errorf("%s does not fit %s: %v, %v", got, test.schema, faults, err)
		}
	}
}

// A schema of a stranger makes neither an endless sample nor a huge one.
func TestBounded(t *testing.T) {
	for _, schema := range []string{
		`{"properties":{"a":{"$ref":"#/properties/a"}},"required":["a"]}`,
		`{"properties":{"a":{"$ref":"#"},"b":{"$ref":"#"},"c":{"$ref":"#"},"d":{"$ref":"#"}},"required":["a","b","c","d"]}`,
		`{"properties":{"a":{"type":"string","minLength":1000000000},"b":{"type":"array","minItems":1e300},"c":{"type":"string","maxLength":-1}},"required":["a","b","c"]}`,
		`{"properties":5,"required":["a"]}`, `{"required":"a"}`, `5`, ``,
	} {
		got := ExampleArguments(json.RawMessage(schema), nil)
		if !json.Valid(got) || len(got) > 5000 {
			t.Errorf("%s: %d bytes: %.200s", schema, len(got), got)
		}
	}
}

// A schema may require any number of arguments.
func TestManyRequired(t *testing.T) {
	names := make([]string, 5000)
	for i := range names {
		names[i] = fmt.Sprint("x", i)
	}
	schema, err := json.Marshal(map[string]any{"required": names})
	expect.OK(t, err)
	var all map[string]any
	if err := json.Unmarshal(ExampleArguments(schema, nil), &all); err != nil || len(all) != maxExampleValues {
		t.Errorf("%d arguments, %v, want %d", len(all), err, maxExampleValues)
	}
}

// A step may be too small for any number.
func TestTinyStep(t *testing.T) {
	got := ExampleArguments(json.RawMessage(`{"required":["x"],"properties":{"x":{"type":"number","multipleOf":5e-324}}}`), nil)
	if string(got) != `{"x":1}` {
		t.Errorf("got %s", got)
	}
}
