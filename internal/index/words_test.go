package index

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/mcp-metarouter/metarouter/internal/vectors"
	"github.com/mcp-metarouter/metarouter/registry"
)

func TestWords(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "",
		"getHTTPUrl":                    "get http url",
		"browser_take_screenshot":       "browser take screenshot",
		"list-all.repositories/v2":      "list repositori v2",
		"MP3Player base64Encode":        "mp3 player base64 encod",
		"S3Bucket 3DModel":              "s3 bucket 3d model",
		"The weather in Paris":          "weather pari",
		"the of":                        "the of",
		"使用必应搜索 query":                  "使 用 必 应 搜 索 queri",
		"Größe ändern, señor":           "größe ändern señor",
		"don't":                         "don t",
		"ÉCOLE ÉcoleNormale":            "école école normal",
		"\xff\xfebad\xffbytes":          "bad byte",
		strings.Repeat("x", 65) + " a1": "a1",
	} {
		if got := strings.Join(Words(text), " "); got != want {
			t.Errorf("Words(%q) = %q, want %q", text, got, want)
		}
	}
}

func FuzzWords(f *testing.F) {
	f.Add("getHTTPUrl 使用 don't \xff")
	f.Fuzz(func(t *testing.T, text string) {
		words := Words(text)
		if !slices.Equal(words, Words(text)) {
			t.Error("not the same twice")
		}
		for _, w := range words {
			if w == "" || strings.ContainsAny(w, " \t\n") || utf8.ValidString(text) && !utf8.ValidString(w) {
				t.Errorf("%q is not a word", w)
			}
		}
	})
}

func TestDocument(t *testing.T) {
	tool := tool("shop", "find_item", "Finds an item", "commerce")
	tool.InputSchema = json.RawMessage(`{"type":"object","description":"ignored","properties":{
		"itemName":{"type":"string","description":"what to find"},
		"filter":{"type":"object","properties":{"color":{"enum":["red","blue",1,null]}}},
		"tags":{"type":"array","items":{"anyOf":[{"type":"object","properties":{"label":{}}}]}},
		"odd":true}}`)
	d := newDocument(registry.Item{Tool: &tool}, make(Stemmer), vectors.Embedded().NewBag())
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
		CapabilityField:  "commerc",
	} {
		if got := in(f); got != want {
			t.Errorf("field %d: %q, want %q", f, got, want)
		}
	}
	if _, ok := d.Term("ignored"); ok {
		t.Error("the description of the whole schema is no parameter's")
	}
	if d.Len[ParameterField] != 7 {
		t.Errorf("%d words in parameters", d.Len[ParameterField])
	}
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
			d := newDocument(registry.Item{Tool: &tool}, make(Stemmer), vectors.Embedded().NewBag())
			for f, n := range d.Len {
				if n > maxFieldWords {
					t.Errorf("%d words in field %d", n, f)
				}
			}
		})
	}
}

func TestJoined(t *testing.T) {
	for text, want := range map[string][]string{
		"a MySQL table on GitHub": {"mysql", "github"},
		"plain words":             nil,
		"GetHTTPUrl":              nil, // three words
		"readFile":                nil, // an identifier
		"createPullRequestReview": nil,
		"VeryLongIdentifier":      nil,
		"Capital":                 nil,
	} {
		if got := Joined(text); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	d := NewDocument(registry.Item{Tool: &registry.NormalizedTool{Name: "q", Description: "Queries MySQL"}}, vectors.Embedded())
	for _, word := range []string{"mysql", "sql"} {
		if _, ok := d.Term(word); !ok {
			t.Errorf("the tool lacks %q", word)
		}
	}
}
