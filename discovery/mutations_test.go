package discovery

import (
	"encoding/json"
	"strings"
	"testing"

	validate "github.com/mcp-metarouter/metarouter/internal/schema"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

const (
	shared = `"title":"word1","description":"word2","icons":[{"src":"data:,","mimeType":"a/b","sizes":["any"],"theme":"dark"}],"_meta":{"k":1}`
	notes  = `,"annotations":{"audience":["user"],"priority":0.5,"lastModified":"2025-01-12T15:00:58Z"}`
)

// elements are elements of lists with all members of 2025-11-25.
var elements = map[string]string{
	"tool": `{"name":"n","inputSchema":{"type":"object","properties":{"a":{"type":"string","description":"word3"}},"required":["a"]},
		"outputSchema":{"type":"object","properties":{"b":{"type":"string"}},"required":["b"]},"execution":{"taskSupport":"optional"},
		"annotations":{"title":"word4","readOnlyHint":true,"destructiveHint":false,"idempotentHint":true,"openWorldHint":false},` + shared + `}`,
	registry.KindPrompt:   `{"name":"n","arguments":[{"name":"a","title":"word3","description":"word4","required":true}],` + shared + `}`,
	registry.KindResource: `{"uri":"made://n","name":"n","mimeType":"a/b","size":3,` + shared + notes + `}`,
	registry.KindTemplate: `{"uriTemplate":"made://{n}","name":"n","mimeType":"a/b",` + shared + notes + `}`,
}

var identity = map[string]string{"tool": "name", registry.KindPrompt: "name", registry.KindResource: "uri", registry.KindTemplate: "uriTemplate"}

// taken is a schema of what SDKs take as an element of 2025-11-25.
const taken = `{"type":"object","required":["name"],"properties":{
	"name":{"type":"string"},"title":{"type":"string"},"description":{"type":"string"},"mimeType":{"type":"string"},"_meta":{"type":"object"},
	"uri":{"type":"string"},"uriTemplate":{"type":"string"},"size":{"type":"integer","minimum":0},
	"icons":{"type":"array","items":{"required":["src"],"properties":{"src":{"type":"string"},"mimeType":{"type":"string"},"sizes":{"type":"array","items":{"type":"string"}},"theme":{"enum":["light","dark"]}}}},
	"annotations":{"type":"object","properties":{"audience":{"type":"array","items":{"enum":["user","assistant"]}},"priority":{"type":"number","minimum":0,"maximum":1},"lastModified":{"type":"string"},
		"title":{"type":"string"},"readOnlyHint":{"type":"boolean"},"destructiveHint":{"type":"boolean"},"idempotentHint":{"type":"boolean"},"openWorldHint":{"type":"boolean"}}},
	"execution":{"type":"object","properties":{"taskSupport":{"enum":["forbidden","optional","required"]}}},
	"arguments":{"type":"array","items":{"required":["name"],"properties":{"name":{"type":"string"},"title":{"type":"string"},"description":{"type":"string"},"required":{"type":"boolean"}}}},
	"inputSchema":{"$ref":"#/$defs/object"},"outputSchema":{"$ref":"#/$defs/object"}},
	"$defs":{"object":{"required":["type"],"properties":{"type":{"const":"object"},"required":{"type":"array","items":{"type":"string"}},"properties":{"additionalProperties":{"type":"object"}}}}}}`

// No client refuses an element in which one member is null, of a wrong type or missing; only one without a name or URI is
// left out.
func TestMutations(t *testing.T) {
	shape, err := validate.Compile(json.RawMessage(taken))
	expect.OK(t, err)
	for kind, text := range elements {
		var v map[string]any
		expect.OK(t, json.Unmarshal([]byte(text), &v))
		expect.Mutations(v, func() {
			raw, err := json.Marshal(v)
			expect.OK(t, err)
			got, _, err := definition(kind, string(raw))
			if err != nil {
				if _, named := v[identity[kind]].(string); named {
					t.Errorf("%s %s: %v", kind, raw, err)
				}
				return
			}
			faults, _, err := shape.Validate(t.Context(), kind, json.RawMessage(got))
			expect.OK(t, err)
			expect.List(t, faults, nil, "%s %s became %s", kind, raw, got)
			for _, word := range []string{"word1", "word2"} {
				if strings.Contains(string(raw), word) && !strings.Contains(got, word) {
					t.Errorf("%s %s became %s: it has no %s", kind, raw, got, word)
				}
			}
		})
	}
}
