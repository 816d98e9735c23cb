package schema

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// many returns n texts with their number, with commas between them.
func many(n int, format string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = strings.ReplaceAll(format, "#n", fmt.Sprint(i))
	}
	return strings.Join(all, ",")
}

// doubling returns a schema of 30 definitions, each of which refers to the one before twice.
func doubling(keyword, leaf string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"type":"object","$ref":"#/$defs/a30","$defs":{"a0":%s`, leaf)
	for i := 1; i <= 30; i++ {
		ref := fmt.Sprintf(`{"$ref":"#/$defs/a%d"}`, i-1)
		fmt.Fprintf(&b, `,"a%d":{%s}`, i, strings.ReplaceAll(keyword, "#ref", ref))
	}
	return b.String() + "}}"
}

func nested(open, inner, end string, n int) string {
	return strings.Repeat(open, n) + inner + strings.Repeat(end, n)
}

// TestCostly checks that schemas that take very long to compile or to compare with are rejected
// before, and those that are only unusual are not.
func TestCostly(t *testing.T) {
	for name, tc := range map[string]struct {
		schema string
		reason string // "" if it is not too costly
	}{
		"allOf doubles":           {doubling(`"allOf":[#ref,#ref]`, `{}`), "unfold"},
		"anyOf doubles":           {doubling(`"anyOf":[#ref,#ref]`, `false`), "unfold"},
		"not doubles":             {doubling(`"not":{"oneOf":[#ref,#ref]}`, `{"type":"string"}`), "unfold"},
		"if doubles":              {doubling(`"if":#ref,"then":#ref`, `{}`), "unfold"},
		"dependencies double":     {doubling(`"dependencies":{"a":#ref,"b":#ref}`, `{"type":"string"}`), "unfold"},
		"dynamic references":      {doubling(`"allOf":[#ref,{"$dynamicRef":"#/$defs/a0"},#ref]`, `{}`), "unfold"},
		"escaped keyword":         {strings.ReplaceAll(doubling(`"allOf":[#ref,#ref]`, `{}`), `$ref`, `\u0024ref`), "unfold"},
		"draft 4 doubles":         {`{"$schema":"http://json-schema.org/draft-04/schema#",` + doubling(`"allOf":[#ref,#ref]`, `{}`)[1:], "unfold"},
		"draft 2019 refers":       {`{"$schema":"https://json-schema.org/draft/2019-09/schema","allOf":[{"$recursiveRef":"#"}]}`, "without end"},
		"refers to itself":        {`{"anyOf":[{"type":"object"},{"$ref":"#"}]}`, "without end"},
		"refers to each other":    {`{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"allOf":[{"$ref":"#/$defs/a"}]}}}`, "without end"},
		"dynamic across names":    {`{"$dynamicRef":"#x","$defs":{"x":{"$dynamicAnchor":"x"},"y":{"$id":"y","$ref":"#/$defs/z","$defs":{"z":{"$dynamicAnchor":"x"}}}},"items":{"$ref":"y"}}`, "dynamic"},
		"large":                   {`{"description":"` + strings.Repeat("x", maxBytes) + `"}`, "bytes"},
		"deep":                    {nested(`{"items":`, "true", "}", 200), "deeper"},
		"very deep":               {nested(`{"items":`, "true", "}", 9_000), "deeper"},
		"many properties":         {`{"properties":{` + many(64_000, `"p#n":{}`) + `}}`, "subschemas"},
		"large enum":              {`{"enum":[` + many(100_000, `#n`) + `]}`, "values"},
		"long name above many":    {`{"properties":{"` + strings.Repeat("x", 10_000) + `":{"properties":{` + many(1_000, `"p#n":{}`) + `}}}}`, "too long"},
		"many identifiers":        {`{"allOf":[` + many(1_000, `{"$id":"http://example.com/#n","type":"object"}`) + `]}`, "too many"},
		"many references":         {`{"anyOf":[` + many(1_500, `{"$ref":"#/x/p#n"}`) + `],"x":{` + many(1_500, `"p#n":{"type":"string"}`) + `}}`, "references"},
		"large number":            {`{"maximum":1e1000000}`, "digits"},
		"long number":             {`{"multipleOf":0.` + strings.Repeat("1", 2_000) + `}`, "digits"},
		"repeated pattern":        {`{"pattern":"[\\pL\\pN]{900}"}`, "patterns"},
		"long pattern":            {`{"pattern":"` + strings.Repeat("a", maxPattern+1) + `"}`, "patterns"},
		"many patterns":           {`{"patternProperties":{` + many(500, `"^#n(\\pL|x){50}$":{}`) + `}}`, "patterns"},
		"a tree":                  {`{"type":"object","properties":{"name":{"type":"string"},"children":{"type":"array","items":{"$ref":"#"}}},"required":["name"]}`, ""},
		"trees of each other":     {`{"$ref":"#/$defs/a","$defs":{"a":{"allOf":[{"$ref":"#/$defs/b"}]},"b":{"properties":{"a":{"$ref":"#/$defs/a"}}}}}`, ""},
		"a draft's own schema":    {`{"properties":{"schema":{"$ref":"https://json-schema.org/draft/2020-12/schema"}}}`, "dynamic"},
		"an older draft's schema": {`{"properties":{"schema":{"$ref":"http://json-schema.org/draft-07/schema#"}}}`, ""},
		"1000 properties":         {`{"properties":{` + many(1_000, `"p#n":{"type":"string","description":"text"}`) + `}}`, ""},
		"5000 values":             {`{"properties":{"icon":{"enum":[` + many(5_000, `"icon-#n"`) + `]}}}`, ""},
		"invalid":                 {`{"type":"nonsense"}`, ""},
		"not JSON":                {`{`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			err := Costly(json.RawMessage(tc.schema))
			if (err == nil) != (tc.reason == "") || err != nil && !strings.Contains(err.Error(), tc.reason) {
				t.Errorf("%v, want %q", err, tc.reason)
			}
			if _, compiled := Compile(json.RawMessage(tc.schema)); errors.Is(compiled, ErrCostly) != (err != nil) {
				t.Errorf("Compile says %v", compiled)
			}
		})
	}
}

// TestSteps checks that a comparison ends when its steps are spent, by any comparison.
func TestSteps(t *testing.T) {
	for name, tc := range map[string]struct{ schema, value string }{
		"a member in three ways": {
			`{"anyOf":[{"type":"string"},{"allOf":[{"properties":{"a":{"$ref":"#"}}},{"properties":{"a":{"$ref":"#"}}},{"properties":{"a":{"$ref":"#"}}}]}]}`,
			nested(`{"a":`, "1", "}", 100),
		},
		"without a fault in sight": {
			`{"not":{"dependencies":{"a":{"properties":{"a":{"$ref":"#"}}},"b":{"properties":{"a":{"$ref":"#"}}}}},"type":"object"}`,
			nested(`{"b":1,"a":`, "{}", "}", 100),
		},
		"deep":                {`{"allOf":[{"items":{"$ref":"#"}}]}`, nested("[", "", "]", 9_000)},
		"patterns and names":  {`{"patternProperties":{` + many(200, `"^(a|b#n)*[\\w.]{20}$":{}`) + `}}`, `{` + many(200, `"`+strings.Repeat("ab", 2_000)+`#n":1`) + `}`},
		"a pattern":           {`{"pattern":"(x?){900}(x?){900}"}`, `"` + strings.Repeat("y", 100_000) + `"`},
		"an enum of objects":  {`{"items":{"not":{"enum":[` + many(3_000, `[[[[#n]]]]`) + `]}}}`, `[` + many(3_000, `[[[["#n"]]]]`) + `]`},
		"names of properties": {`{"propertyNames":{"not":{"enum":[` + many(10_000, `"#n"`) + `]}}}`, `{` + many(2_000, `"x#n":1`) + `}`},
		"what is unevaluated": {`{"unevaluatedProperties":false,"allOf":[` + many(1_900, `{"minProperties":1}`) + `]}`, `{` + many(2_000, `"x#n":1`) + `}`},
		"members, again and again": {
			`{"anyOf":[` + many(1_900, `{"additionalProperties":false,"title":"#n"}`) + `]}`, `{` + many(3_000, `"x#n":1`) + `}`,
		},
		"numbers of many digits":       {`{"items":{"not":{"enum":[` + many(900, `1#ne-900`) + `]}}}`, `[` + many(150, `7#ne-900`) + `]`},
		"an enum of exponents":         {`{"items":{"enum":[` + many(9_000, `1#ne-900`) + `]}}`, `[` + many(200, `#n`) + `]`},
		"a multiple of a small number": {`{"items":{"multipleOf":1e-998}}`, `[` + many(150_000, `#n`) + `]`},
		"required by absent members":   {`{"items":{"dependentRequired":{` + many(15_000, `"p#n":[]`) + `}}}`, `[` + many(60_000, `{}`) + `]`},
		"long names":                   {`{"items":{"required":["` + strings.Repeat("x", 900_000) + `"]}}`, `[` + many(20_000, `{"a":#n}`) + `]`},
		"lists that may hash alike":    {`{"uniqueItems":true}`, `[` + many(12_000, `[#n]`) + `]`},
		"a large number":               {`{"multipleOf":3}`, `1e1000000`},
		"a large integer":              {`{"type":"integer"}`, `1e1000000`},
		"equal numbers":                {`{"uniqueItems":true}`, `[1e1000000,1e1000001]`},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := Compile(json.RawMessage(tc.schema))
			expect.OK(t, err)
			if faults, _, err := s.Validate(t.Context(), "arguments", json.RawMessage(tc.value)); !errors.Is(err, ErrCostly) || faults != nil {
				t.Errorf("faults %.200q, error %v", faults, err)
			}
		})
	}
}

// TestLongValues checks that long values of usual tools are compared.
func TestLongValues(t *testing.T) {
	for name, tc := range map[string]struct{ schema, value string }{
		"numbers": {`{"items":{"type":"number","minimum":-180,"maximum":180}}`, `[` + many(100_000, `1.#n`) + `]`},
		"strings": {`{"items":{"type":"string","pattern":"^[a-z0-9 -]+$"},"uniqueItems":true}`, `[` + many(100_000, `"some text #n"`) + `]`},
		"a text":  {`{"type":"string","pattern":"^[\\s\\S]*\\S[\\s\\S]*$"}`, `"` + strings.Repeat("word ", 400_000) + `"`},
		"objects": {`{"items":{"required":["m1"],"additionalProperties":{"anyOf":[{"type":"string","minLength":1},{"type":"null"}]}}}`,
			`[{}` + strings.Repeat(`,{`+many(20, `"m#n":"value #n"`)+`}`, 5_000) + `]`},
	} {
		s, err := Compile(json.RawMessage(tc.schema))
		expect.OK(t, err, "%s", name)
		_, _, err = s.Validate(t.Context(), "arguments", json.RawMessage(tc.value))
		expect.OK(t, err, "%s", name)
	}
}

// TestLongStrings checks that a long string is compared as it is where a schema refuses long ones.
func TestLongStrings(t *testing.T) {
	for _, schema := range []string{
		`{"items":{"maxLength":1000}}`, `{"items":{"not":{"minLength":1000}}}`, `{"items":{"oneOf":[{"minLength":10},{"type":"string"}]}}`,
	} {
		s, err := Compile(json.RawMessage(schema))
		expect.OK(t, err, "%s", schema)
		faults, _, err := s.Validate(t.Context(), "arguments", json.RawMessage(`["`+strings.Repeat("x", longValue)+`"]`))
		if err != nil || len(faults) != 1 {
			t.Errorf("%.60s: faults %.200q, %v", schema, faults, err)
		}
	}
}

// TestExcused checks that required members with a default may be missing, but not so that a value fits two of oneOf.
func TestExcused(t *testing.T) {
	const branch = `{"properties":{"#":{"default":1}},"required":["#"]}`
	a, b, c := strings.ReplaceAll(branch, "#", "a"), strings.ReplaceAll(branch, "#", "b"), `{"required":["c"]}`
	for schema, fits := range map[string]bool{
		a: true, c: false, `{"oneOf":[` + a + `,` + c + `]}`: true, `{"oneOf":[` + a + `,` + b + `]}`: false, `{"anyOf":[` + a + `,` + b + `]}`: true,
	} {
		s, err := Compile(json.RawMessage(schema))
		expect.OK(t, err, "%s", schema)
		faults, excused, err := s.Validate(t.Context(), "a", json.RawMessage(`{}`))
		expect.OK(t, err, "%s", schema)
		expect.Equal(t, excused, fits, "%s: %v", schema, faults)
	}
}

// TestContext checks that a comparison ends with its context, before its steps are spent.
func TestContext(t *testing.T) {
	s, err := Compile(json.RawMessage(`{"items":{"type":"integer"}}`))
	expect.OK(t, err)
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("the client is gone")
	cancel(gone)
	if _, _, err := s.Validate(ctx, "arguments", json.RawMessage(`[`+many(5_000, "#n")+`]`)); !errors.Is(err, gone) {
		t.Errorf("error %v", err)
	}
}

// TestFaults checks that faults are few and short, and name the place.
func TestFaults(t *testing.T) {
	s, err := Compile(json.RawMessage(`{"items":{"enum":["` + strings.Repeat("é", maxFault) + `"]}}`))
	expect.OK(t, err)
	faults, _, err := s.Validate(t.Context(), "arguments", json.RawMessage(`[`+many(100, "#n")+`]`))
	if err != nil || len(faults) != maxFaults || !strings.HasPrefix(faults[9], "arguments.9: value must be") || len(faults[9]) > maxFault+10 {
		t.Errorf("%d faults, the last %.100q, error %v", len(faults), faults[len(faults)-1], err)
	}
	const sorted = "arguments: additional properties 'a', 'b', 'c', 'd', 'e' not allowed"
	s, err = Compile(json.RawMessage(`{"additionalProperties":false}`))
	expect.OK(t, err)
	if faults, _, err := s.Validate(t.Context(), "arguments", json.RawMessage(`{"e":1,"b":1,"d":1,"a":1,"c":1}`)); err != nil || len(faults) != 1 || faults[0] != sorted {
		t.Errorf("%q, %v", faults, err)
	}
}

// BenchmarkValidate compares a call's arguments with a schema.
func BenchmarkValidate(b *testing.B) {
	s, err := Compile(json.RawMessage(`{"type":"object","properties":{"owner":{"type":"string"},"repo":{"type":"string","minLength":1},"page":{"type":"integer","minimum":1},
		"labels":{"type":"array","items":{"type":"string"}},"state":{"enum":["open","closed","all"]},"when":{"anyOf":[{"type":"string"},{"type":"null"}]}},
		"required":["owner","repo"],"additionalProperties":false}`))
	expect.OK(b, err)
	args := json.RawMessage(`{"owner":"octo","repo":"hello","page":2,"labels":["bug","help wanted"],"state":"open","when":null}`)
	b.ReportAllocs()
	for b.Loop() {
		if faults, _, err := s.Validate(b.Context(), "arguments", args); err != nil || faults != nil {
			b.Fatal(faults, err)
		}
	}
}

// TestRealServers checks that the schemas of real servers, which METAROUTER_REAL_SERVERS is a folder of, are cheap enough.
func TestRealServers(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join(os.Getenv("METAROUTER_REAL_SERVERS"), "*.json"))
	if len(files) == 0 {
		t.Skip("METAROUTER_REAL_SERVERS names no folder of lists")
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		expect.OK(t, err)
		var list struct {
			Tools []struct {
				Name                      string
				InputSchema, OutputSchema json.RawMessage
			}
		}
		expect.OK(t, json.Unmarshal(text, &list), "%s", file)
		for _, tool := range list.Tools {
			for _, schema := range []json.RawMessage{tool.InputSchema, tool.OutputSchema} {
				s, err := Compile(schema)
				if schema == nil || err != nil && !errors.Is(err, ErrCostly) {
					continue
				}
				expect.OK(t, err, "%s of %s", tool.Name, file)
				_, _, err = s.Validate(t.Context(), "arguments", json.RawMessage("{}"))
				expect.OK(t, err, "%s of %s", tool.Name, file)
			}
		}
	}
}

// A schema is partial if Go's engine does not know an expression in it.
func TestIsPartial(t *testing.T) {
	for pattern, want := range map[string]bool{
		`^[a-z]+$`: false, `\\d{2}`: false, `(?i)a`: false, `^(?!-)[a-z-]+$`: true, `(?<=a)b`: true, `(a)\\1`: true, `[^]`: true, `a{`: false, `(`: true, `a++`: true,
	} {
		for _, schema := range []string{`{"properties":{"a":{"pattern":"` + pattern + `"}}}`, `{"patternProperties":{"` + pattern + `":{}}}`} {
			s, err := Compile(json.RawMessage(schema))
			expect.OK(t, err, "%s", schema)
			expect.Equal(t, s.IsPartial(), want, "%s", schema)
		}
	}
}

// A value is never refused for an expression that Go's engine does not know, wherever that is. Other rules are judged.
func TestLookAround(t *testing.T) {
	const look = `{"pattern":"^(?!-)[a-z-]+$"}`
	for _, tc := range []struct {
		schema, value string
		fits          bool
	}{
		{look, `"a-b"`, true}, {look, `"-bad"`, true}, {`{"items":` + look + `}`, `["-"]`, true}, {`{"not":` + look + `}`, `"a"`, true}, {`{"properties":{"a":{"not":{"items":` + look + `}}}}`, `{"a":["a"]}`, true}, {`{"oneOf":[` + look + `,{"type":"string"}]}`, `"-bad"`, true}, {`{"if":` + look + `,"then":{"const":"a"}}`, `"-bad"`, true}, {`{"contains":` + look + `,"maxContains":0}`, `["-"]`, true}, {`{"patternProperties":{"^(?!-)":{"type":"null"}},"additionalProperties":false}`, `{"-a":1}`, true},
		{`{"anyOf":[{"properties":{"a":` + look + `}}],"unevaluatedProperties":false}`, `{"b":1}`, true}, {`{"type":"string","minLength":3,"pattern":"(?<=a)b"}`, `"ab"`, false}, {`{"properties":{"a":` + look + `},"required":["a"]}`, `{}`, false}, {`{"patternProperties":{"^(?!-)":{"type":"null"}},"required":["a"]}`, `{}`, false},
		{`{"required":["a"],"allOf":[` + look + `,{"oneOf":[{"required":["b"]},{"required":["c"]}],"not":{"required":["x"]}}]}`, `{"a":1,"b":1,"c":1,"x":1}`, true}, {`{"items":` + look + `,"oneOf":[{"type":"object"},{"type":"string"}]}`, `[]`, false},
	} {
		s, err := Compile(json.RawMessage(tc.schema))
		expect.OK(t, err, "%s", tc.schema)
		faults, _, err := s.Validate(t.Context(), "a", []byte(tc.value))
		expect.OK(t, err, "%s", tc.schema)
		expect.Equal(t, faults == nil, tc.fits, "%s and %s: %v", tc.schema, tc.value, faults)
		expect.Equal(t, s.IsPartial(), true, "%s", tc.schema)
	}
}
