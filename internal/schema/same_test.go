package schema

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// reference returns the answer of the library, with the path of each fault.
func reference(t testing.TB, s *Schema, value json.RawMessage) []string {
	t.Helper()
	v, err := wire.Decode(value)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.root.Validate(v); err != nil {
		return leaves(err.(*jsonschema.ValidationError))
	}
	return nil
}

func leaves(e *jsonschema.ValidationError) (all []string) {
	if len(e.Causes) == 0 {
		return []string{strings.Join(append([]string{"arguments"}, e.InstanceLocation...), ".") + ": " + e.ErrorKind.LocalizedString(english)}
	}
	for _, cause := range e.Causes {
		all = append(all, leaves(cause)...)
	}
	return all
}

// agree checks that Validate answers as the library.
func agree(t testing.TB, s *Schema, schema, value string) {
	t.Helper()
	want := reference(t, s, json.RawMessage(value))
	got, err := s.Validate(t.Context(), "arguments", json.RawMessage(value))
	if err != nil {
		t.Fatalf("%s\n%s\n%v", schema, value, err)
	}
	if (len(got) == 0) != (len(want) == 0) {
		t.Fatalf("schema %s\nvalue %s\ngot  %q\nwant %q", schema, value, got, want)
	}
	if len(want) > maxFaults || strings.Contains(schema, "propertyNames") { // the library does not say where the name is
		return
	}
	got, want = inOrder(got), inOrder(want)
	if !slices.Equal(got, want) {
		t.Fatalf("schema %s\nvalue %s\ngot  %q\nwant %q", schema, value, got, want)
	}
}

// inOrder returns the faults in order, and the names of additional properties too: the library
// has them in the order of a map.
func inOrder(faults []string) (all []string) {
	for _, fault := range faults {
		words := strings.FieldsFunc(fault, func(c rune) bool { return c == ' ' || c == ',' })
		slices.Sort(words)
		all = append(all, strings.Join(words, " "))
	}
	slices.Sort(all)
	return all
}

// TestSameAsLibrary checks that random values fit random schemas, or not, as the library says.
func TestSameAsLibrary(t *testing.T) {
	n := 4_000
	if testing.Short() {
		n = 500
	}
	compiled := 0
	for seed := range n {
		g := generator{rand.New(rand.NewPCG(uint64(seed), 1))}
		schema := g.document()
		s, err := Compile(json.RawMessage(schema))
		if err != nil {
			continue
		}
		compiled++
		for range 10 {
			agree(t, s, schema, g.value(3))
		}
	}
	if compiled < n/2 {
		t.Errorf("only %d of %d schemas could be compiled", compiled, n)
	}
}

func FuzzSameAsLibrary(f *testing.F) {
	f.Add(`{"$ref":"#/$defs/a","$defs":{"a":{"type":"object","unevaluatedProperties":false,"allOf":[{"properties":{"a":true}}]}}}`, `{"a":1}`)
	f.Add(`{"$schema":"http://json-schema.org/draft-04/schema#","maximum":3,"exclusiveMaximum":true}`, `3`)
	f.Add(`{"$ref":"https://json-schema.org/draft/2020-12/schema"}`, `{"type":"nonsense"}`)
	f.Fuzz(func(t *testing.T, schema, value string) {
		s, err := Compile(json.RawMessage(schema))
		if err == nil && wire.Valid([]byte(value)) && len(value) < 1000 && len(schema) < 1000 {
			agree(t, s, schema, value)
		}
	})
}

// A generator makes random schemas and values.
type generator struct{ *rand.Rand }

func pick[T any](g generator, all ...T) T { return all[g.IntN(len(all))] }

func (g generator) value(depth int) string {
	switch k := g.IntN(9); {
	case depth > 0 && k < 3:
		var all []string
		for _, name := range []string{"a", "b", "c", "ab"}[:g.IntN(5)] {
			all = append(all, fmt.Sprintf("%q:%s", name, g.value(depth-1)))
		}
		return "{" + strings.Join(all, ",") + "}"
	case depth > 0 && k < 5:
		var all []string
		for range g.IntN(5) {
			all = append(all, g.value(depth-1))
		}
		if g.IntN(20) == 0 { // as many as are compared by their hash in the library
			for range 30 {
				all = append(all, g.value(0))
			}
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	return pick(g, "null", "true", "false", "0", "-0", "1", "1.0", "2", "10e-1", "2.5", "-3", "1e2", `""`, `"a"`, `"ab"`, `"é"`, `"b1"`, `"2026-01-31"`)
}

func (g generator) document() string {
	draft := pick(g, "", "", "", `"$schema":"http://json-schema.org/draft-04/schema#",`, `"$schema":"http://json-schema.org/draft-06/schema#",`,
		`"$schema":"http://json-schema.org/draft-07/schema#",`, `"$schema":"https://json-schema.org/draft/2019-09/schema",`)
	return "{" + draft + g.keywords(3) + fmt.Sprintf(`,"$defs":{"a":%s,"b":%s},"definitions":{"c":%s}}`, g.schema(1), g.schema(1), g.schema(1))
}

func (g generator) schema(depth int) string {
	if depth == 0 || g.IntN(8) == 0 {
		return pick(g, "true", "false", "{}", `{"type":"string"}`, `{"type":"integer"}`, `{"type":["object","array"]}`, `{"const":1}`, `{"$ref":"#/$defs/a"}`, `{"$ref":"#/definitions/c"}`)
	}
	return "{" + g.keywords(depth) + "}"
}

func (g generator) keywords(depth int) string {
	seen := make(map[string]bool)
	var all []string
	for range 1 + g.IntN(4) {
		keyword := g.keyword(depth - 1)
		if name, _, _ := strings.Cut(keyword, ":"); !seen[name] {
			seen[name] = true
			all = append(all, keyword)
		}
	}
	return strings.Join(all, ",")
}

func (g generator) keyword(depth int) string {
	if g.IntN(3) == 0 {
		return pick(g, `"type":"object"`, `"type":"array"`, `"type":"number"`, `"type":["integer","string","object"]`, `"enum":[1,"a",{"a":1},[]]`, `"const":{"a":1.0}`,
			`"minProperties":1`, `"maxProperties":2`, `"required":["a"]`, `"required":["a","c"]`, `"dependencies":{"a":["b"],"b":{"required":["c"]}}`,
			`"dependentRequired":{"a":["b"]}`, `"minItems":1`, `"maxItems":3`, `"uniqueItems":true`, `"minLength":1`, `"maxLength":1`, `"pattern":"^a"`, `"pattern":"(?=a)"`,
			`"minimum":1`, `"maximum":2`, `"exclusiveMinimum":1`, `"exclusiveMaximum":2`, `"exclusiveMaximum":true`, `"multipleOf":2`, `"format":"date"`, `"format":"regex"`,
			`"minContains":2`, `"minContains":0`, `"maxContains":2`, `"additionalProperties":false`, `"additionalItems":false`, `"unevaluatedProperties":false`,
			`"unevaluatedItems":false`, `"$ref":"#/$defs/a"`, `"$ref":"#/$defs/b"`, `"$ref":"#/definitions/c"`)
	}
	list := func() string {
		all := []string{}
		for range 1 + g.IntN(3) {
			all = append(all, g.schema(depth))
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	switch name := pick(g, "allOf", "anyOf", "oneOf", "prefixItems", "items", "properties", "patternProperties", "dependentSchemas", "not", "if", "then", "else", "contains",
		"propertyNames", "additionalProperties", "additionalItems", "unevaluatedProperties", "unevaluatedItems", "tuple", "recursive"); name {
	case "allOf", "anyOf", "oneOf", "prefixItems":
		return fmt.Sprintf("%q:%s", name, list())
	case "tuple":
		return `"items":` + list()
	case "recursive":
		return pick(g, `"properties":{"a":{"$ref":"#"}}`, `"items":{"$recursiveRef":"#"}`, `"additionalProperties":{"$dynamicRef":"#/$defs/b"}`)
	case "properties", "dependentSchemas":
		return fmt.Sprintf(`%q:{"a":%s,"b":%s}`, name, g.schema(depth), g.schema(depth))
	case "patternProperties":
		return fmt.Sprintf(`%q:{"^a":%s,"b$":%s}`, name, g.schema(depth), g.schema(depth))
	default:
		return fmt.Sprintf("%q:%s", name, g.schema(depth))
	}
}

// TestRealServers checks the schemas of real servers, which METAROUTER_REAL_SERVERS is a folder
// of: each is cheap enough, and answers for its arguments as the library.
func TestRealServers(t *testing.T) {
	files, _ := filepath.Glob(filepath.Join(os.Getenv("METAROUTER_REAL_SERVERS"), "*.json"))
	if len(files) == 0 {
		t.Skip("METAROUTER_REAL_SERVERS names no folder of lists")
	}
	checked := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var list struct {
			Tools []struct {
				Name                      string
				InputSchema, OutputSchema json.RawMessage
			}
		}
		if err := json.Unmarshal(text, &list); err != nil {
			t.Fatal(err)
		}
		for _, tool := range list.Tools {
			for _, schema := range []json.RawMessage{tool.InputSchema, tool.OutputSchema} {
				if schema == nil {
					continue
				}
				if err := Costly(schema); err != nil {
					t.Errorf("%s of %s: %v", tool.Name, file, err)
				}
				s, err := Compile(schema)
				if err != nil {
					t.Logf("%s of %s can't be compiled: %v", tool.Name, file, err)
					continue
				}
				checked++
				for seed := range 50 {
					g := generator{rand.New(rand.NewPCG(uint64(seed), 2))}
					agree(t, s, string(schema), g.fitting(schema, schema, 6))
				}
			}
		}
	}
	t.Logf("%d schemas", checked)
}

// fitting returns a value that often fits the schema.
func (g generator) fitting(root, schema json.RawMessage, depth int) string {
	if ref, ok := wire.String(wire.Member(schema, "$ref")); ok && depth > 0 {
		target := root
		for step := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
			target = wire.Member(target, step)
		}
		return g.fitting(root, target, depth-1)
	}
	for _, key := range []string{"anyOf", "oneOf", "allOf", "enum"} {
		var all []json.RawMessage
		if json.Unmarshal(wire.Member(schema, key), &all); len(all) > 0 && g.IntN(6) > 0 {
			if key == "enum" {
				return string(pick(g, all...))
			}
			return g.fitting(root, pick(g, all...), depth)
		}
	}
	kind, _ := wire.String(wire.Member(schema, "type"))
	switch {
	case depth == 0 || g.IntN(12) == 0:
		return g.value(1)
	case kind == "object":
		var all []string
		wire.Members(wire.Member(schema, "properties"), func(name string, property []byte) bool {
			if g.IntN(3) > 0 {
				all = append(all, string(wire.Marshal(name))+":"+g.fitting(root, property, depth-1))
			}
			return true
		})
		if g.IntN(6) == 0 {
			all = append(all, `"unknown":1`)
		}
		return "{" + strings.Join(all, ",") + "}"
	case kind == "array":
		item := g.fitting(root, wire.Member(schema, "items"), depth-1)
		return "[" + strings.Join([]string{item, item}[:g.IntN(3)], ",") + "]"
	case kind == "string":
		return pick(g, `"a"`, `"https://example.com"`, `"2026-01-31T09:30:00Z"`, `""`)
	case kind == "boolean":
		return "true"
	case kind == "integer", kind == "number":
		return pick(g, "1", "10", "2.5", "-1")
	}
	return g.value(2)
}
