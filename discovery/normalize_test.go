package discovery

import (
	"bytes"
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/capability"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// What needs no repair keeps every byte.
func TestNormalizeKeepsBytes(t *testing.T) {
	raw := `{ "zeta" : [1, 2.50, 12345678901234567890, 1e400] ,
		"name":"na\u006De", "title":"T", "description":"D\u00e9 \ud83d\ude00",
		"inputSchema":{"$schema":"https://json-schema.org/draft/2020-12/schema","type" : "object","properties":{"DateCreated":{"$ref":"#/$defs/d"},"n":{"anyOf":[{"const":1},true]}},
		 "required":[ "n" ],"$defs":{"d":true},"additionalProperties":false},
		"outputSchema":{"type":"object"},
		"annotations":{"title":"Hm","readOnlyHint":true,"category":"x","openWorldHint":false},
		"icons":[{"src":"data:,","sizes":["any"],"mimeType":"a/b","theme":"dark"}],
		"execution":{"taskSupport":"optional","more":1},"_meta":{"ui":{"resourceUri":"ui://x"}} }`
	got, err := Normalize("srv", json.RawMessage("\n"+raw+" "), nil)
	expect.OK(t, err)
	expect.Equal(t, string(got.Definition), raw, "definition is now")
	expect.List(t, got.Repairs, nil, "repairs")
	if got.ID != "srv:name" || got.Name != "name" || got.Original != "" || got.Title != "T" || got.Description != "Dé 😀" {
		t.Errorf("tool %+v", got)
	}
	h := got.Hints
	if !h.IsReadOnly() || h.Destructive != nil || h.Idempotent != nil || h.OpenWorld == nil || *h.OpenWorld {
		t.Errorf("hints %+v", h)
	}
}

// The schema of the arguments is a part of the definition and takes no memory of its own. What is
// appended to it does not reach the definition.
func TestNormalizeSharesSchema(t *testing.T) {
	got, err := Normalize("srv", json.RawMessage(`{"name":"x","inputSchema":{"type":"object","properties":{"a":true}},"title":"T"}`), nil)
	expect.OK(t, err)
	schema := got.InputSchema
	if at := bytes.Index(got.Definition, schema); at < 0 || &got.Definition[at] != &schema[0] {
		t.Error("the schema is a copy")
	}
	expect.Equal(t, cap(schema), len(schema), "there is room for %d bytes after the schema", cap(schema)-len(schema))
}

func TestNormalizeRepairs(t *testing.T) {
	tests := map[string]struct{ raw, want, repair string }{
		// schema: what is in inputSchema
		"type twice, bad last": {`{"name":"x","inputSchema":{"type":"object","type":["object","null"]}}`, `{"name":"x","inputSchema":{"type":"object"}}`, "comes again"},
		"output type twice":    {`{"name":"x","inputSchema":{"type":"object"},"outputSchema":{"type":"object","type":[]}}`, `{"name":"x","inputSchema":{"type":"object"}}`, "outputSchema: removed"},
		"no schema":            {`{"name":"x"}`, `{"name":"x","inputSchema":{"type":"object"}}`, "was missing"},
		"schema null":          {`{"name":"x","inputSchema":null}`, `{"name":"x","inputSchema":{"type":"object"}}`, "was null"},
		"schema true":          {`{"name":"x","inputSchema":true}`, `{"name":"x","inputSchema":{"type":"object"}}`, "was a boolean"},
		"schema array":         {`{"name":"x","inputSchema":[]}`, `{"name":"x","inputSchema":{"type":"object"}}`, "was an array"},
		"no type":              {schema(`{"properties":{}}`), schema(`{"properties":{},"type":"object"}`), `added type "object"`},
		"empty schema":         {schema(`{}`), schema(`{"type":"object"}`), `added type "object"`},
		"type array":           {schema(`{"type": ["object","null"], "x":1}`), schema(`{"type": "object", "x":1}`), `["object","null"]`},
		"type string":          {schema(`{"type":"string"}`), schema(`{"type":"object"}`), `"string" replaced`},
		"type null":            {schema(`{"type":null}`), schema(`{"type":"object"}`), `null replaced`},
		"boolean properties":   {schema(`{"type":"object","properties":{"a":true, "b":false}}`), schema(`{"type":"object","properties":{"a":{}, "b":{"not":{}}}}`), `property "a" was a boolean`},
		"property null":        {schema(`{"type":"object","properties":{"a":null}}`), schema(`{"type":"object","properties":{"a":{}}}`), `property "a" was null`},
		"properties null":      {schema(`{"type":"object" , "properties":null }`), schema(`{"type":"object" }`), "removed properties"},
		"required boolean":     {schema(`{"type":"object","required":true}`), schema(`{"type":"object"}`), "removed required"},
		"required mixed":       {schema(`{"type":"object","required":["a",1]}`), schema(`{"type":"object"}`), "removed required"},
		"type twice":           {schema(`{"type":"string","type":"object"}`), schema(`{"type":"object"}`), "inputSchema: removed 1 members"},

		"description null":    {tool(`"description":null`), tool(``), "description: removed"},
		"description object":  {tool(`"description":{}`), tool(``), "description: removed"},
		"title null":          {tool(`"title":null`), tool(``), "title: removed"},
		"annotations null":    {tool(`"annotations":null`), tool(``), "annotations: removed"},
		"annotations array":   {tool(`"annotations":[]`), tool(``), "annotations: removed"},
		"hint string":         {tool(`"annotations":{"readOnlyHint":"true" ,"x":1}`), tool(`"annotations":{"x":1}`), "readOnlyHint: removed"},
		"hint object":         {tool(`"annotations":{"x":1 ,"readOnlyHint":{}}`), tool(`"annotations":{"x":1}`), "readOnlyHint: removed"},
		"annotation title":    {tool(`"annotations":{"title":1}`), tool(`"annotations":{}`), "title: removed"},
		"output null":         {tool(`"outputSchema":null`), tool(``), "outputSchema: removed"},
		"output array":        {tool(`"outputSchema":{"type":"array"}`), tool(``), "outputSchema: removed"},
		"output no type":      {tool(`"outputSchema":{}`), tool(``), "outputSchema: removed"},
		"output boolean":      {tool(`"outputSchema":{"type":"object","properties":{"a":true}}`), tool(`"outputSchema":{"type":"object","properties":{"a":{}}}`), "outputSchema: property"},
		"_meta null":          {tool(`"_meta":null`), tool(``), "_meta: removed"},
		"icons null":          {tool(`"icons":null`), tool(``), "icons: removed"},
		"icon without src":    {tool(`"icons":[{"src":"a"},{}]`), tool(``), "icons: removed"},
		"icon sizes a string": {tool(`"icons":[{"src":"a","sizes":"any"}]`), tool(``), "icons: removed"},
		"execution null":      {tool(`"execution":null`), tool(``), "execution: removed"},
		"execution unknown":   {tool(`"execution":{"taskSupport":"maybe"}`), tool(``), "execution: removed"},
		"name twice":          {`{"name":"y","inputSchema":{"type":"object"},"name":"x"}`, `{"inputSchema":{"type":"object"},"name":"x"}`, "the definition: removed 1 members"},
		"not UTF-8":           {tool("\"title\":\"a\xff\""), tool("\"title\":\"a\uFFFD\""), "not UTF-8"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Normalize("srv", json.RawMessage(test.raw), nil)
			expect.OK(t, err)
			expect.Equal(t, string(got.Definition), test.want, "definition")
			expect.Contains(t, strings.Join(got.Repairs, "\n"), test.repair, "repairs")
		})
	}
}

func schema(s string) string { return `{"name":"x","inputSchema":` + s + `}` }

// tool returns a good tool with one more member.
func tool(member string) string {
	if member == "" {
		return `{"name":"x","inputSchema":{"type":"object"}}`
	}
	return `{"name":"x","inputSchema":{"type":"object"},` + member + `}`
}

// The flat definition shows merged branches; the others keep them.
func TestNormalizeFlattens(t *testing.T) {
	tests := map[string]struct{ in, want, hint string }{
		"one of two arguments": {
			`{"type":"object","properties":{"a":{}, "b":{}},"oneOf":[{"required":["a"]},{"required":["b"]}],"additionalProperties":false}`,
			`{"type":"object","properties":{"a":{}, "b":{}},"additionalProperties":false}`,
			"Give these arguments: a; or b.",
		},
		"union": {
			`{"type":"object","anyOf":[{"properties":{"op":{"const":1},"x":{}},"required":["op","x"]},{"properties":{"op":{"const":2},"y":true},"required":["op","y"]}]}`,
			`{"type":"object","properties":{"op":{"anyOf":[{"const":1},{"const":2}]},"x":{},"y":{}},"required":["op"]}`,
			"Give these arguments: x; or y.",
		},
		"all of": {
			`{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"allOf":[{"properties":{"a":{"minLength":1},"b":{}},"required":["b"]},{"properties":{"b":{}}}]}`,
			`{"type":"object","properties":{"a":{"type":"string"},"b":{}},"required":["a","b"]}`,
			"",
		},
		"what the base says stands": {
			`{"type":"object","properties":{"a":{"type":"string"}},"anyOf":[{"properties":{"a":{"const":"q"}},"required":["a"]},{"required":["c"]}]}`,
			`{"type":"object","properties":{"a":{"type":"string"}}}`,
			"Give these arguments: a; or c.",
		},
		"references": {
			`{"type":"object","anyOf":[{"$ref":"#/$defs/A"},{},true],"$defs":{"A":{"type":"object","properties":{"a":{"$ref":"#/$defs/B"}},"required":["a"]},"B":{}}}`,
			`{"type":"object","$defs":{"A":{"type":"object","properties":{"a":{"$ref":"#/$defs/B"}},"required":["a"]},"B":{}},"properties":{"a":{"$ref":"#/$defs/B"}}}`,
			"",
		},
		"no object": {
			`{"type":"object","anyOf":[{"type":"null"},{"type":"array","items":{}},false,{"type":["object","null"],"properties":{"a":{}},"required":["a"]}]}`,
			`{"type":"object","properties":{"a":{}},"required":["a"]}`,
			"",
		},
		"an empty branch requires nothing": {
			`{"type":"object","anyOf":[{"properties":{"a":{}},"required":["a"]},true]}`,
			`{"type":"object","properties":{"a":{}}}`,
			"",
		},
		"nested": {
			`{"type":"object","allOf":[{"anyOf":[{"properties":{"a":{}},"required":["a"]},{"properties":{"b":{}},"required":["b"]}]}]}`,
			`{"type":"object","properties":{"a":{},"b":{}}}`,
			"Give these arguments: a; or b.",
		},
		"references into branches": {
			`{"type":"object","anyOf":[{"properties":{"a":{"type":"string"}},"required":["a"]},{"properties":{"b":{"title":"B","$ref":"#/anyOf/0/properties/a"}},"required":["b"]}]}`,
			`{"type":"object","properties":{"a":{"type":"string"},"b":{"title":"B"}}}`,
			"Give these arguments: a; or b.",
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Normalize("srv", json.RawMessage(`{"name":"x","description":"D.","inputSchema":`+test.in+`}`), nil)
			expect.OK(t, err)
			description := "D."
			if test.hint != "" {
				description = `D.\n\n` + test.hint
			}
			want := `{"name":"x","description":"` + description + `","inputSchema":` + test.want + `}`
			expect.Equal(t, string(got.Flat), want, "flat definition")
			expect.Contains(t, string(got.Definition), test.in, "definition")
			expect.Equal(t, string(got.InputSchema), test.in, "inputSchema became")
			if at := bytes.Index(got.Definition, got.InputSchema); at < 0 || &got.Definition[at] != &got.InputSchema[0] {
				t.Error("inputSchema is no part of the definition")
			}
			if got.Description != "D." || len(got.Repairs) != 0 {
				t.Errorf("description %q, repairs %q", got.Description, got.Repairs)
			}
		})
	}
}

func TestNormalizeDrops(t *testing.T) {
	tests := map[string]struct{ raw, want string }{
		"nothing":          {``, "not valid JSON"},
		"half":             {`{"name":"x"`, "not valid JSON"},
		"comment":          {`{"name":"x" /* hm */}`, "not valid JSON"},
		"trailing comma":   {`{"name":"x",}`, "not valid JSON"},
		"array":            {`["name"]`, "not an object"},
		"string":           {`"x"`, "not an object"},
		"no name":          {`{}`, "no name"},
		"name null":        {`{"name":null}`, "no name"},
		"name empty":       {`{"name":""}`, "no name"},
		"name number":      {`{"name":1}`, "no name"},
		"name in capitals": {`{"Name":"x"}`, "no name"},
		"deep":             {schema(strings.Repeat(`{"items":`, 250) + `1` + strings.Repeat(`}`, 250)), "100 levels"},
		"unclosed":         {strings.Repeat(`[`, 100_000), "100 levels"},
		"huge":             {tool(`"description":"` + strings.Repeat("a", maxBytes) + `"`), "bytes"},
	}
	for name, test := range tests {
		_, err := Normalize("srv", json.RawMessage(test.raw), nil)
		expect.Error(t, err, test.want, "%s", name)
	}
	brackets := tool(`"description":"` + strings.Repeat(`[\"`, 300) + `"`)
	_, err := Normalize("srv", json.RawMessage(brackets), nil)
	expect.OK(t, err, "brackets in a string")
}

func TestNormalizeRenames(t *testing.T) {
	raw := `{"description":"name", "name" : "old" ,"inputSchema":{"type":"object"}}`
	got, err := Normalize("srv", json.RawMessage(raw), map[string]string{"old": `ne"w`, "x": "y"})
	expect.OK(t, err)
	expect.Equal(t, string(got.Definition), strings.Replace(raw, `"old"`, `"ne\"w"`, 1), "definition")
	if got.Name != `ne"w` || got.ServerName() != "old" || got.ID != registry.ID("srv", `ne"w`) || len(got.Repairs) > 0 {
		t.Errorf("tool %+v", got)
	}
}

// The largest allowed definition takes little memory and few notes, whatever it
// repeats.
func TestNormalizeAtTheLimit(t *testing.T) {
	many := func(s string) string {
		return strings.TrimSuffix(strings.Repeat(s, (maxBytes-200)/len(s)), ",")
	}
	tests := map[string]string{
		"one name":   schema(`{"properties":{` + many(`"a":0,`) + `}}`),
		"references": schema(`{"anyOf":[` + many(`{"$ref":"#"},`) + `]}`),
		"required":   schema(`{"allOf":[{"required":[` + many(`"a",`) + `]}]}`),
		"words":      `{"name":"x","description":"` + many("fetch scrape ") + `"}`,
	}
	taxonomy := capability.NewTaxonomy(nil)
	for name, raw := range tests {
		t.Run(name, func(t *testing.T) {
			var got registry.NormalizedTool
			var err error
			n := allocated(func() {
				if got, err = Normalize("srv", json.RawMessage(raw), nil); err == nil {
					taxonomy.Infer(got)
				}
			})
			expect.OK(t, err)
			// Today 250 MiB at most, and 2.5 GiB with the race detector. To copy the definition once for each repetition takes
			// a thousand times as much.
			if n > 8<<30 {
				t.Errorf("%d MiB were allocated", n>>20)
			}
			if len(got.Repairs) > 21 {
				t.Errorf("%d repairs", len(got.Repairs))
			}
		})
	}
}

// allocated returns how many bytes f allocates; no other test may run meanwhile.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func FuzzNormalize(f *testing.F) {
	f.Add([]byte(tool(`"annotations":{"readOnlyHint":1},"outputSchema":{},"icons":[{}],"execution":0`)))
	f.Add([]byte(schema(`{"anyOf":[{"$ref":"#"},{"$ref":"#/properties/a"}],"properties":{"a":true},"required":[1]}`)))
	f.Add([]byte(schema(`{"allOf":[{"properties":{"a":{}} ,"required":["a"]},true],"properties":{"a":{"x":1}} , "type" : []}`)))
	f.Add([]byte("{\"name\" : \"x\\u0000\xff\" , \"name\":\"y\" , \"title\":null }"))
	taxonomy := capability.NewTaxonomy(nil)
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := Normalize("srv", raw, map[string]string{"x": "renamed"})
		if err != nil {
			return
		}
		var d struct {
			Name        *string
			Title       *string
			Description *string
			InputSchema map[string]json.RawMessage `json:"inputSchema"`
			Output      map[string]json.RawMessage `json:"outputSchema"`
			Annotations map[string]json.RawMessage
		}
		var exact map[string]json.RawMessage
		expect.OK(t, json.Unmarshal(got.Definition, &exact), "definition %s", got.Definition)
		for key := range exact { // encoding/json would take Name for name
			if strings.ToLower(key) != key && key != "inputSchema" && key != "outputSchema" {
				delete(exact, key)
			}
		}
		clean, _ := json.Marshal(exact)
		expect.OK(t, json.Unmarshal(clean, &d), "definition %s", got.Definition)
		if d.Name == nil || *d.Name != got.Name || got.Name == "" {
			t.Errorf("name of %s is not %q", got.Definition, got.Name)
		}
		expect.Equal(t, string(d.InputSchema["type"]), `"object"`, "inputSchema of %s", got.Definition)
		flat := got.Definition
		if got.Flat != nil {
			flat = got.Flat
		}
		var f struct {
			InputSchema map[string]json.RawMessage `json:"inputSchema"`
		}
		if err := json.Unmarshal(flat, &f); err != nil || string(f.InputSchema["type"]) != `"object"` {
			t.Errorf("flat definition %s: %v", flat, err)
		}
		for _, keyword := range combiners {
			if f.InputSchema[keyword] != nil {
				t.Errorf("%s at the top level of %s", keyword, flat)
			}
		}
		var s map[string]json.RawMessage
		if json.Unmarshal(got.InputSchema, &s) != nil || string(s["type"]) != `"object"` {
			t.Errorf("InputSchema %s", got.InputSchema)
		}
		if again, err := Normalize("srv", got.Definition, nil); err != nil || string(again.Definition) != string(got.Definition) {
			t.Errorf("normalized again, %s becomes %s (%v, %q)", got.Definition, again.Definition, err, again.Repairs)
		}
		taxonomy.Infer(got)
	})
}
