package script

import (
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// types are the types of schemas.
var typeFields = map[string]string{
	``:                               "any",
	`true`:                           "any",
	`{}`:                             "any",
	`{"type":"string"}`:              "string",
	`{"type":"integer"}`:             "number",
	`{"type":["string","null"]}`:     "string | null",
	`{"type":["string","frob"]}`:     "any",
	`{"type":"array"}`:               "any[]",
	`{"type":"object"}`:              "Record<string, any>",
	`{"enum":["a", 1, null]}`:        `"a" | 1 | null`,
	`{"type":"string","enum":[]}`:    "string",
	`{"const":{"a" : [1]}}`:          `{"a":[1]}`,
	`{"const":"*/"}`:                 `"*/"`,
	`{"type":"string","const":null}`: "null",
	`{"type":"string","enum":["` + strings.Repeat("x", 200) + `"]}`:                                    "string",
	`{"type":"string","nullable":true}`:                                                                "string | null",
	`{"items":{"type":["string","number"]}}`:                                                           "(string | number)[]",
	`{"items":{"items":{"type":"null"}}}`:                                                              "null[][]",
	`{"prefixItems":[{"type":"string"},{}],"items":false}`:                                             "[string, any]",
	`{"prefixItems":[{"type":"string"}],"items":{"type":"number"}}`:                                    "[string, ...number[]]",
	`{"items":[{"type":"string"}]}`:                                                                    "[string]",
	`{"anyOf":[{"type":"string"},{"type":"string"},{"type":"number"}]}`:                                "string | number",
	`{"type":"string","oneOf":[{"const":"a"},{"const":"b"}]}`:                                          `"a" | "b"`,
	`{"anyOf":[{"type":"string"},{}]}`:                                                                 "any",
	`{"items":{"anyOf":[{"type":"string"},{"type":"null"}]}}`:                                          "(string | null)[]",
	`{"properties":{"a":{}},"anyOf":[{"required":["a"]},{"required":["b"]}]}`:                          "{ a?: any }",
	`{"allOf":[{"properties":{"a":{}}},{"anyOf":[{"type":"string"},{"type":"null"}]}]}`:                "({ a?: any } & (string | null))",
	`{"allOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{"type":"boolean"}}}`:                                "boolean",
	`{"required":["b"],"properties":{"a-b":{},"b":{"type":"null"},"ab":{"type":"boolean"},"\"*/":{}}}`: `{ "a-b"?: any; b: null; ab?: boolean; "\"*/"?: any }`,
	`{"properties":{"a":{}},"additionalProperties":{"type":"string"}}`:                                 "{ a?: any; [name: string]: any }",
	`{"properties":{"a":{}},"additionalProperties":true}`:                                              "{ a?: any }",
	`{"properties":{"a":{}},"additionalProperties":false}`:                                             "{ a?: any }",
	`{"additionalProperties":{"type":"string"}}`:                                                       "Record<string, string>",
	`{"type":"object","additionalProperties":false}`:                                                   "{}",
	`{"patternProperties":{"x":{}},"additionalProperties":false}`:                                      "Record<string, any>",
	`{"$ref":"#/definitions/a~1b","definitions":{"a/b":{"type":"string"}}}`:                            "string",
	`{"$ref":"#"}`:                   "any",
	`{"$ref":"https://example.com"}`: "any",
	`{"$ref":"#/$defs/none"}`:        "any",
	`{"$ref":"#/$defs/Node","$defs":{"Node":{"properties":{"next":{"$ref":"#/$defs/Node"},"all":{"items":{"$ref":"#/$defs/Node"}}}}}}`: "{ next?: any /* Node */; all?: any /* Node */[] }",
	`{"$ref":"#/$defs/*~1","$defs":{"*/":{"items":{"$ref":"#/$defs/*~1"}}}}`:                                                           "any[]",
}

func TestTypes(t *testing.T) {
	for schema, want := range typeFields {
		w := &writer{Detail: Full, left: Full.Size, work: maxWork}
		got := w.of([]byte(schema))
		expect.Equal(t, got, want, "%s", schema)
		expect.OK(t, parse("declare function call(tool: \"x\", args: "+got+"): Promise<any>;"), "%s: %s", schema, got)
	}
}

// Tools as servers declare them, with other names.
var recorded = []struct {
	tool DeclaredTool
	want string
}{
	{DeclaredTool{
		ID: "github:list_issues", Description: "Lists issues.", Reads: true,
		Input:  []byte(`{"type":"object","properties":{"repo":{"type":"string"},"limit":{"type":"integer","description":"at most\n 100","default":30},"state":{"enum":["open","closed"],"default":null}},"required":["repo"]}`),
		Output: []byte(`{"type":"object","properties":{"issues":{"type":"array","items":{"type":"object","properties":{"id":{"type":"integer"},"title":{"type":"string"}},"required":["id","title"]}}},"required":["issues"]}`),
	}, `/** Lists issues. Reads only. */
declare function call(tool: "github:list_issues", args: { repo: string; /** at most 100. Default: 30 */ limit?: number; state?: "open" | "closed" }): Promise<{ issues: { id: number; title: string }[] }>;`},
	{DeclaredTool{ID: "clock:now", Reads: true, Input: []byte(`{"type":"object","properties":{},"required":[]}`)}, `/** Reads only. */
declare function call(tool: "clock:now", args?: {}): Promise<any>;`},
	{DeclaredTool{ID: "a:b", Description: "Lists all", Reads: true}, `/** Lists all. Reads only. */
declare function call(tool: "a:b", args?: {}): Promise<any>;`},
	{DeclaredTool{ID: `odd:"x" */`, Description: "Ends */ here *//.", Input: []byte(`{"type":"object","properties":{"a":{"description":"*/","type":"string"}}}`)}, `/** Ends *\/ here *\//. */
declare function call(tool: "odd:\"x\" */", args?: { /** *\/ */ a?: string }): Promise<any>;`},
	// pydantic
	{DeclaredTool{ID: "notes:edit", Input: []byte(`{"$defs":{"Edit":{"properties":{"old":{"type":"string"},"tags":{"anyOf":[{"items":{"type":"string"},"type":"array"},{"type":"null"}],"default":null}},"required":["old"],"title":"Edit","type":"object"}},"properties":{"edits":{"items":{"$ref":"#/$defs/Edit"},"type":"array"},"dry-run":{"default":false,"type":"boolean"}},"required":["edits"],"type":"object"}`)},
		`declare function call(tool: "notes:edit", args: { edits: { old: string; tags?: string[] | null }[]; /** Default: false */ "dry-run"?: boolean }): Promise<any>;`},
	{DeclaredTool{ID: "web:shot", Input: []byte(`{"type":"object","properties":{"scale":{"default":"css","type":"string"}},"required":["scale"]}`), Output: []byte(`{"properties":{"n":{"type":"integer","default":0}},"required":["n"]}`)},
		`declare function call(tool: "web:shot", args?: { /** Default: "css" */ scale?: string }): Promise<{ /** Default: 0 */ n: number }>;`},
	// zod
	{DeclaredTool{ID: "db:find", Input: []byte(`{"type":"object","properties":{"filter":{"type":"object","additionalProperties":{}},"sort":{"type":"array","minItems":2,"maxItems":2,"items":[{"type":"string"},{"type":"string","enum":["asc","desc"]}]}},"additionalProperties":false,"$schema":"http://json-schema.org/draft-07/schema#"}`)},
		`declare function call(tool: "db:find", args?: { filter?: Record<string, any>; sort?: [string, "asc" | "desc"] }): Promise<any>;`},
}

func TestDeclarations(t *testing.T) {
	for _, r := range recorded {
		got := Declare(r.tool, Full)
		expect.Equal(t, got, r.want)
		expect.OK(t, parse(got), "%s", got)
	}
}

func TestSignature(t *testing.T) {
	many := `{"properties":{"a":{}`
	for i := range 40 {
		many += `,"b` + strings.Repeat("x", i) + `":{"type":"string"}`
	}
	for _, test := range []struct{ input, output, want string }{
		{`{"type":"object"}`, "", "f()"},
		{`{"properties":{"b":{"type":"integer"},"a":{"type":"string"}},"required":["a"]}`, `{"type":"object","properties":{"hits":{"type":"array","items":{"type":"string"}}}}`, "f({ b?: number; a: string }) → { hits?: string[] }"},
		{`{"properties":5,"required":"no"}`, `{"$ref":"#/x"}`, "f()"},
	} {
		var output []byte
		if test.output != "" {
			output = []byte(test.output)
		}
		expect.Equal(t, Signature("f", []byte(test.input), output), test.want)
	}
	if got := Result([]byte(many + "}}")); len(got) > 400 || !strings.HasSuffix(got, "/* and more */ }") {
		t.Errorf("a long one: %s", got)
	}
}

func TestDetails(t *testing.T) {
	tool := DeclaredTool{ID: "a:b", Description: strings.Repeat("é", 200), Input: []byte(`{"properties":{"a":{"properties":{"b":{"properties":{"c":{"properties":{"d":{}}},"l":{"items":{"type":"string"}}}}},"description":"x"}}}`)}
	want := "/** " + strings.Repeat("é", 100) + "… */\n" + `declare function call(tool: "a:b", args?: { a?: { b?: Record<string, any> } }): Promise<any>;`
	expect.Equal(t, Declare(tool, Line), want)
}

// hostile are schemas that would make a long declaration, or take long.
var hostile = []string{
	strings.Repeat(`{"properties":{"a":`, 500) + "{}" + strings.Repeat("}}", 500),
	strings.Repeat(`{"anyOf":[{"type":"null"},`, 500) + "{}" + strings.Repeat("]}", 500),
	`{"properties":{"a":{}` + strings.Repeat(`,"a":{"type":"string"}`, 5000) + `}}`,
	`{"properties":{"` + strings.Repeat("x", 10000) + `":{}}}`,
	`{"enum":["a"` + strings.Repeat(`,"a"`, 100000) + `]}`,
	`{"required":["a"` + strings.Repeat(`,"b"`, 100000) + `],"properties":{"a":{}}}`,
	`{"properties":{"a":{"default":"` + strings.Repeat("x", 1000) + `","description":"` + strings.Repeat("*/", 5000) + `"}}}`,
	doubling(30),
	`{"additionalProperties":{"type":"string"},"properties":{"a":{}` + strings.Repeat(`,"abcdefghijklmnopqrstuvwxyz":{"type":"string"}`, 5000) + `}}`,
	`{"additionalProperties":{"type":"string"},"properties":{"a":{}` + strings.Repeat(`,"a":{}`, 5000) + `}}`,
	`{"a":` + strings.Repeat(" ", 1<<20) + `1,"properties":{` + strings.Repeat(`"p":{"$ref":"#/x/y"},`, 99) + `"q":{"$ref":"#"}}}`,
	`{"properties":{"a":5,"b":[],"c":"x","d":null,"e":true},"required":5,"type":5,"enum":5,"items":5,"anyOf":5,"$ref":5,"const":`,
}

// doubling returns a schema whose type is twice as long with each of the definitions.
func doubling(n int) string {
	var b strings.Builder
	b.WriteString(`{"$ref":"#/$defs/0","$defs":{"end":{}`)
	for i := range n {
		next := `{"$ref":"#/$defs/` + string(rune('0'+i+1)) + `"}`
		b.WriteString(`,"` + string(rune('0'+i)) + `":{"properties":{"l":` + next + `,"r":` + next + `},"allOf":[` + next + `]}`)
	}
	return b.String() + "}}"
}

// bounded declares the tool in each detail: a short text that can be parsed.
func bounded(t *testing.T, tool DeclaredTool) {
	t.Helper()
	for _, d := range []Detail{Full, Brief, Line} {
		got := Declare(tool, d)
		if most := 2*d.Size + 2*d.Description + 6*len(tool.ID) + 1000; len(got) > most {
			t.Errorf("%d bytes, more than %d", len(got), most)
		}
		if err := parse(got); err != nil {
			t.Errorf("%v:\n%s", err, got)
		}
	}
}

func TestHostile(t *testing.T) {
	for _, schema := range hostile {
		bounded(t, DeclaredTool{ID: "a:b", Description: strings.Repeat("*/", 50000), Input: []byte(schema), Output: []byte(schema)})
	}
}

func FuzzOf(f *testing.F) {
	for schema := range typeFields {
		f.Add("a:b", "says", []byte(schema))
	}
	f.Fuzz(func(t *testing.T, id, description string, schema []byte) {
		bounded(t, DeclaredTool{ID: id, Description: description, Input: schema, Output: schema})
	})
}
