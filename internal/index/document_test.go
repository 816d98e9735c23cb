package index

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/schemas"
)

func TestDocument(t *testing.T) {
	tool := tool("shop", "find_item", "Finds an item", "commerce")
	tool.InputSchema = json.RawMessage(`{"type":"object","description":"ignored","properties":{
		"itemName":{"type":"string","description":"what to find"},
		"filter":{"type":"object","properties":{"color":{"enum":["red","blue",1,null]}}},
		"tags":{"type":"array","items":{"anyOf":[{"type":"object","properties":{"label":{}}}]}},
		"odd":true}}`)
	d := newDocument(registry.Item{Tool: &tool}, make(Stemmer))
	in := func(f Field) string {
		var words []string
		for _, term := range d.Terms {
			if term.Count[f] > 0 {
				words = append(words, term.Word)
			}
		}
		return strings.Join(words, " ")
	}
	for f, want := range map[Field]string{
		NameField:        "find item",
		DescriptionField: "find item",
		ParameterField:   "color filter item label name odd tag",
		ValueField:       "blue find red",
		ServerField:      "shop",
	} {
		expect.Equal(t, in(f), want, "field %d", f)
	}
	if _, ok := d.Term("ignored"); ok {
		t.Error("the description of the whole schema is no parameter's")
	}
	expect.Equal(t, d.Len[ParameterField], 7, "words in parameters")
}

func TestDocumentOfHostileTools(t *testing.T) {
	deep := strings.Repeat(`{"properties":{"p":`, 5000) + "{}" + strings.Repeat("}}", 5000)
	for name, schema := range map[string]string{
		"empty":     "",
		"not JSON":  `{"properties":`,
		"not types": `{"properties":[1],"items":"x","anyOf":{"a":1},"enum":3,"description":[]}`,
		"deep":      deep,
		"long":      `{"properties":{"p":{"description":"` + strings.Repeat("word ", 200_000) + `"}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			tool := tool("s", "name", strings.Repeat("much ", 100_000))
			tool.InputSchema = json.RawMessage(schema)
			d := newDocument(registry.Item{Tool: &tool}, make(Stemmer))
			for f, n := range d.Len {
				if n > maxFieldWords {
					t.Errorf("%d words in field %d", n, f)
				}
			}
		})
	}
}

// A description has a bounded number of words, also of names that are written as two words in one.
func TestDocumentOfHostileNames(t *testing.T) {
	var names strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&names, "Ab%cC%c%c%c ", 'a'+i%26, 'a'+i/26%26, 'a'+i/26/26%26, 'a'+i/26/26/26)
	}
	d := newDocument(registry.Item{Resource: &registry.Resource{URI: "a:b", Description: names.String()}}, make(Stemmer))
	if n := len(d.Terms); n > 2*maxFieldWords+10 {
		t.Errorf("%d words", n)
	}
}

// A name that is written as two words in one is found by either.
func TestDocumentOfJoinedNames(t *testing.T) {
	d := newDocument(registry.Item{Tool: &registry.NormalizedTool{Name: "q", Description: "Queries MySQL"}}, make(Stemmer))
	for _, word := range []string{"mysql", "sql"} {
		if _, ok := d.Term(word); !ok {
			t.Errorf("the tool lacks %q", word)
		}
	}
}

func TestSame(t *testing.T) {
	same := func(name, schema string) uint64 {
		return newDocument(registry.Item{Tool: &registry.NormalizedTool{Name: name, InputSchema: json.RawMessage(schema)}}, make(Stemmer)).Same
	}
	expect.Equal(t, same("read", `{"a":1,"b":2}`), same("read", `{"b":2, "a":1}`), "equal tools differ")
	if same("read", `{"a":1}`) == same("write", `{"a":1}`) || same("read", `{"a":1}`) == same("read", `{"a":2}`) {
		t.Error("different tools are equal")
	}
}

// TestHostileSchemas checks that tools with hostile schemas are indexed in a bounded number of
// steps, and with few words.
func TestHostileSchemas(t *testing.T) {
	for name, schema := range schemas.Hostile() {
		d := newDocument(registry.Item{Tool: &registry.NormalizedTool{Name: "a", Server: "s", InputSchema: json.RawMessage(schema)}}, make(Stemmer))
		if n := len(d.Terms); n > int(NumFields)*maxFieldWords {
			t.Errorf("%s: %d words", name, n)
		}
	}
}
