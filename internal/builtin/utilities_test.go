package builtin

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/schemas"
)

func TestUnitConvertTool(t *testing.T) {
	cs := connect(t, "utilities")
	got := answer[measure](t, cs, "unit_convert", `{"value":1,"from_unit":"Miles","to_unit":"KM"}`)
	expect.Equal(t, got, (measure{1.609344, "Miles", "KM"}))
	refuse(t, cs, "unit_convert", `{"value":1,"from_unit":"parsnip","to_unit":"km"}`, "parsnip", "length (nm", "temperature (C", "mass (µg")
	refuse(t, cs, "unit_convert", `{"value":1,"from_unit":"kg","to_unit":"km"}`, "mass", "length", "mi")
	refuse(t, cs, "unit_convert", `{"value":-274,"from_unit":"celsius","to_unit":"K"}`, "absolute zero")
	refuse(t, cs, "unit_convert", `{"value":1e308,"from_unit":"km","to_unit":"nm"}`, "range")
	refuse(t, cs, "unit_convert", `{"value":1e999,"from_unit":"km","to_unit":"nm"}`)
	refuse(t, cs, "unit_convert", `{"value":"1","from_unit":"km","to_unit":"m"}`, "value")
	refuse(t, cs, "unit_convert", `{"value":1,"from_unit":"km"}`, "to_unit")
	refuse(t, cs, "unit_convert", `{"value":1,"from_unit":"km","to_unit":"m","x":1}`, "x")
	refuse(t, cs, "unit_convert", `{}`, "value")
}

func TestConvert(t *testing.T) {
	for _, test := range []struct {
		value    float64
		from, to string
		want     float64
	}{
		{1, "mi", "km", 1.609344},
		{0.1, "m", "cm", 10},
		{1.1, "m", "mm", 1100},
		{12, "inches", "foot", 1},
		{3, "feet", "yard", 1},
		{1, "nautical_mile", "m", 1852},
		{1, "NM", "km", 1.852},
		{1e9, "nm", "m", 1},
		{5.5, `"`, "cm", 13.97},
		{1, "kilometre", "meters", 1000},
		{1, "in.", "mm", 25.4},
		{100, "C", "F", 212},
		{98.6, "°F", "°C", 37},
		{0, "c", "k", 273.15},
		{-40, "Celsius", "fahrenheit", -40},
		{-459.67, "F", "K", 0},
		{-273.15, "degrees Celsius", "kelvin", 0},
		{0, "K", "deg C", -273.15},
		{20, "℃", "ºF", 68},
		{491.67, "rankine", "C", 0},
		{1, "lb", "kg", 0.45359237},
		{16, "ounces", "pounds", 1},
		{1, "stone", "lbs", 14},
		{1, "Mg", "kg", 1000},
		{1, "MG", "g", 0.001},
		{1, "MM", "m", 0.001},
		{1, "Mm", "km", 1000},
		{500, "mcg", "mg", 0.5},
		{2.5, "KG", "Gramme", 2500},
		{1, "short ton", "lb", 2000},
		{-3, "m", "cm", -300},
		{0, "kg", "lb", 0},
	} {
		got, err := convert(test.value, test.from, test.to)
		if err != nil || got != test.want {
			t.Errorf("%v %s in %s: got %v, %v; want %v", test.value, test.from, test.to, got, err, test.want)
		}
	}
	for _, bad := range []string{"", " ", "degrees m", "°", "ton", "m2", "deg"} {
		if got, err := convert(1, bad, "m"); err == nil {
			t.Errorf("unit %q is accepted: %v", bad, got)
		}
	}
}

func TestUnitsConvertBack(t *testing.T) {
	all := units()
	for name, u := range all.exact {
		for other, v := range all.exact {
			if u.dimension != v.dimension {
				continue
			}
			there, err := convert(300, name, other)
			expect.OK(t, err)
			back, err := convert(there, other, name)
			if err != nil || back < 299.9999999999 || back > 300.0000000001 {
				t.Errorf("300 %s is %v %s is %v %s (%v)", name, there, other, back, name, err)
			}
		}
	}
}

func TestValidateTool(t *testing.T) {
	cs := connect(t, "utilities")
	const person = `{"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer","minimum":0},"tags":{"type":"array","items":{"type":"string"}}},"required":["name"],"additionalProperties":false}`
	for _, test := range []struct {
		schema, data string
		errors       []string // a part of each
	}{
		{person, `{"name":"Ann","age":3}`, nil},
		{person, `{"age":-1,"tags":["a",1],"x":2}`, []string{"(root): missing property 'name'", "'x' not allowed", "/age: minimum", "/tags/1: got number, want string"}},
		{person, `"Ann"`, []string{"(root): got string, want object"}},
		{`{"type":"null"}`, `null`, nil},
		{`{}`, `[1,"two",null]`, nil},
		{`{"const":9007199254740993}`, `9007199254740993`, nil},
		{`{"const":9007199254740993}`, `9007199254740992`, []string{"value must be 9007199254740993"}},
		{`{"type":"integer"}`, `1.0`, nil},
		{`{"anyOf":[{"type":"string"},{"minimum":5}]}`, `3`, []string{"'anyOf' failed ((root): got number, want string | (root): minimum: got 3, want 5)"}},
		{`{"properties":{"a/b~c":{"type":"string"}}}`, `{"a/b~c":1}`, []string{"/a~1b~0c: got number"}},
		{`{"$schema":"http://json-schema.org/draft-04/schema#","minimum":5,"exclusiveMinimum":true}`, `5`, []string{"exclusiveMinimum"}},
		{`{"$schema":"http://json-schema.org/draft-06/schema#","const":1}`, `2`, []string{"value must be 1"}},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","if":{"type":"string"},"then":{"minLength":2}}`, `"a"`, []string{"minLength"}},
		{`{"$schema":"https://json-schema.org/draft/2019-09/schema","dependentRequired":{"a":["b"]}}`, `{"a":1}`, []string{"'b' required"}},
		{`{"$schema":"https://json-schema.org/draft/2020-12/schema","prefixItems":[{"type":"string"}]}`, `[1]`, []string{"/0: got number"}},
		{`{"$defs":{"node":{"properties":{"next":{"$ref":"#/$defs/node"}},"required":["v"]}},"$ref":"#/$defs/node"}`, `{"v":1,"next":{}}`, []string{"/next: missing property 'v'"}},
		{`{"$id":"https://example.com/s","$ref":"#/$defs/a","$defs":{"a":{"type":"string"}}}`, `1`, []string{"(root): got number"}},
	} {
		got := answer[validation](t, cs, "jsonschema_validate", fmt.Sprintf(`{"schema":%s,"data":%s}`, test.schema, test.data))
		if got.Valid != (len(test.errors) == 0) || got.Errors == nil || len(got.Errors) != len(test.errors) {
			t.Errorf("%s for %s: got %+v, want %q", test.schema, test.data, got, test.errors)
			continue
		}
		for _, want := range test.errors {
			if !slices.ContainsFunc(got.Errors, func(e string) bool { return strings.Contains(e, want) }) {
				t.Errorf("%s for %s: got %q, none with %q", test.schema, test.data, got.Errors, want)
			}
		}
	}
	for schema, words := range map[string][]string{
		`{"type":"strnig"}`:                                     {"not valid", "/type", "string"},
		`{"properties":{"a":{"minimum":"5"}}}`:                  {"/properties/a/minimum"},
		`{"$ref":"https://example.com/s.json"}`:                 {"https://example.com/s.json", "never fetched"},
		`{"$ref":"file:///etc/passwd"}`:                         {"/etc/passwd", "never fetched"},
		`{"$ref":"other.json"}`:                                 {"other.json", "never fetched"},
		`{"$ref":"#/$defs/missing"}`:                            {"#/$defs/missing"},
		`{"$schema":"https://example.com/meta"}`:                {"https://example.com/meta", "never fetched"},
		`{"pattern":"(?<!a)b"}`:                                 {"regex"},
		`{"$ref":"#nowhere"}`:                                   {"nowhere"},
		`{"$schema":5}`:                                         {"$schema"},
		`{"$schema":"http://json-schema.org/draft-03/schema#"}`: {"draft-03"},
	} {
		refuse(t, cs, "jsonschema_validate", `{"data":1,"schema":`+schema+`}`, words...)
	}
	hostile := schemas.Hostile()
	for _, name := range []string{"doubling allOf", "doubling anyOf", "doubling oneOf"} {
		refuse(t, cs, "jsonschema_validate", `{"data":1,"schema":`+hostile[name]+`}`, "too costly")
	}
	refuse(t, cs, "jsonschema_validate", `{"schema":{}}`, "data")
	refuse(t, cs, "jsonschema_validate", `{"schema":[],"data":1}`, "schema")
	refuse(t, cs, "jsonschema_validate", `{"schema":{},"data":1,"draft":7}`, "draft")
}

// Every format is checked in every draft, and the answer names the place.
func TestValidateFormats(t *testing.T) {
	cs := connect(t, "utilities")
	for format, test := range map[string]struct{ good, bad []string }{
		"date-time":             {[]string{"2026-11-22T17:00:00Z", "2026-11-22t17:00:00.5+01:00"}, []string{"2026-11-22", "2026-13-22T17:00:00Z", "2026-11-22T17:00:00", "now"}},
		"date":                  {[]string{"2024-02-29"}, []string{"2026-02-29", "22.11.2026"}},
		"time":                  {[]string{"17:00:00Z"}, []string{"17:00", "25:00:00Z"}},
		"duration":              {[]string{"P1DT2H"}, []string{"1 day", "P"}},
		"email":                 {[]string{"ann@example.com"}, []string{"ann", "ann@", "a b@example.com"}},
		"hostname":              {[]string{"example.com"}, []string{"-example.com", "a b"}},
		"ipv4":                  {[]string{"127.0.0.1"}, []string{"127.0.0.256", "127.0.0", "1.2.3.04"}},
		"ipv6":                  {[]string{"::1"}, []string{"127.0.0.1", ":::"}},
		"uri":                   {[]string{"https://example.com/a?b=c#d", "urn:isbn:1", "http://[::1]:80/", "mailto:ann@example.com"}, []string{"example.com", "/a", "https://example.com/a b", `c:\\a`, "http://[:::]/", "http://::1/", "https://ex%mple.com/ä"}},
		"uri-reference":         {[]string{"../a"}, []string{`\\a`}},
		"uuid":                  {[]string{"2EB8AA08-AA98-11EA-B4AA-73B441D16380"}, []string{"2eb8aa08", "2eb8aa08-aa98-11ea-b4aa-73b441d1638g"}},
		"json-pointer":          {[]string{"/a/0", ""}, []string{"a", "/~2"}},
		"relative-json-pointer": {[]string{"1/a"}, []string{"/a"}},
		"regex":                 {[]string{"^a+$"}, []string{"(a"}},
		"of-our-own":            {[]string{"anything"}, nil},
	} {
		for i, text := range append(slices.Clone(test.good), test.bad...) {
			for _, draft := range []string{"", `"$schema":"http://json-schema.org/draft-07/schema#",`, `"$schema":"https://json-schema.org/draft/2019-09/schema",`} {
				got := answer[validation](t, cs, "jsonschema_validate", fmt.Sprintf(`{"schema":{%s"properties":{"at":{"format":%q}}},"data":{"at":"%s"}}`, draft, format, text))
				good := i < len(test.good)
				if got.Valid != good || !good && (len(got.Errors) != 1 || !strings.HasPrefix(got.Errors[0], "/at: ") || !strings.Contains(got.Errors[0], "is not valid "+format)) {
					t.Errorf("%s %s with %q: %+v", format, text, draft, got)
				}
			}
		}
		if got := answer[validation](t, cs, "jsonschema_validate", fmt.Sprintf(`{"schema":{"format":%q},"data":5}`, format)); !got.Valid {
			t.Errorf("%s, a number: %+v", format, got)
		}
	}
}

func TestValidateCapsErrors(t *testing.T) {
	data := make([]any, 150)
	got, err := validate(map[string]any{"items": map[string]any{"type": "string"}}, data)
	if err != nil || len(got.Errors) != maxSchemaErrors+1 || got.Errors[maxSchemaErrors] != "and 50 more" {
		t.Errorf("got %d errors, %v", len(got.Errors), err)
	}
}
