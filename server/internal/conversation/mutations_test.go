package conversation

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/content"
	"github.com/mcp-metarouter/metarouter/internal/schema"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

const (
	annotations = `"annotations":{"audience":["user"],"priority":0.5,"lastModified":"2025-01-12T15:00:58Z"},"_meta":{"k":1}`
	png         = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
	wav         = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="
	textBlock   = `{"type":"text","text":"word1",` + annotations + `}`
	resource    = `{"type":"resource","resource":{"uri":"made://a","mimeType":"text/plain","text":"word2","_meta":{"k":1}},` + annotations + `}`
	blob        = `{"uri":"made://b","mimeType":"application/pdf","blob":"d29yZA==","_meta":{"k":1}}`
	link        = `{"type":"resource_link","uri":"made://c","name":"word3","title":"word4","description":"word5","mimeType":"a/b","size":3,"icons":[{"src":"data:,","mimeType":"a/b","sizes":["any"],"theme":"dark"}],` + annotations + `}`
)

// whole are results with all members of 2025-11-25.
var whole = map[string][]string{
	"tools/call": {
		`{"content":[` + textBlock + `],"structuredContent":{"a":"word6"},"isError":false,"_meta":{"k":1}}`,
		`{"content":[{"type":"image","data":"` + png + `","mimeType":"image/png",` + annotations + `}],"isError":true}`,
		`{"content":[{"type":"audio","data":"` + wav + `","mimeType":"audio/wav",` + annotations + `}]}`,
		`{"content":[` + resource + `]}`, `{"content":[{"type":"resource","resource":` + blob + `}]}`, `{"content":[` + link + `]}`,
	},
	"prompts/get": {
		`{"description":"word7","messages":[{"role":"user","content":` + textBlock + `}],"_meta":{"k":1}}`,
		`{"messages":[{"role":"assistant","content":` + resource + `}]}`, `{"messages":[{"role":"assistant","content":` + link + `}]}`,
	},
	"resources/read":      {`{"contents":[{"uri":"made://a","mimeType":"text/plain","text":"word8","_meta":{"k":1}}],"_meta":{"k":1}}`, `{"contents":[` + blob + `]}`},
	"completion/complete": {`{"completion":{"values":["word9"],"total":1,"hasMore":false},"_meta":{"k":1}}`},
}

// repaired returns a result as clients get it.
func repaired(method string, raw []byte) []byte {
	var found [3][]byte
	media, _ := wire.PickMedia(raw, found[:], "content", "structuredContent", "isError")
	odd := found[2] != nil && !content.IsFlag(found[2])
	if method != "tools/call" || odd || !content.Fits(found[0], found[1], media) {
		raw, _ = content.Repair(method, raw)
	}
	if theirs := wire.Member(raw, "_meta"); method == "tools/call" && theirs != nil && !wire.IsObject(theirs) {
		raw = wire.SetMember(raw, "_meta", []byte("{}")) // as ours takes its place
	}
	return raw
}

// shapes are the schemas of results of 2025-11-25, as SDKs check them, under "result", with $defs.
var shapes = map[string]string{
	"tools/call":          `{"required":["content"],"properties":{"content":{"items":{"$ref":"#/$defs/block"}},"structuredContent":{"type":"object"},"isError":{"type":"boolean"}}}`,
	"prompts/get":         `{"required":["messages"],"properties":{"description":{"type":"string"},"messages":{"type":"array","items":{"required":["role","content"],"properties":{"role":{"enum":["user","assistant"]},"content":{"$ref":"#/$defs/block"}}}}}}`,
	"resources/read":      `{"required":["contents"],"properties":{"contents":{"type":"array","items":{"$ref":"#/$defs/contents"}}}}`,
	"completion/complete": `{"required":["completion"],"properties":{"completion":{"required":["values"],"properties":{"values":{"type":"array","items":{"type":"string"}},"total":{"type":"integer"},"hasMore":{"type":"boolean"}}}}}`,
}

const definitions = `{"meta":{"type":"object","properties":{"_meta":{"type":"object"}}},
"contents":{"$ref":"#/$defs/meta","required":["uri"],"properties":{"uri":{"type":"string"},"mimeType":{"type":"string"},"text":{"type":"string"},"blob":{"type":"string","pattern":"^[A-Za-z0-9+/]*=*$"}},"anyOf":[{"required":["text"]},{"required":["blob"]}]},
"block":{"$ref":"#/$defs/meta","required":["type"],"properties":{"annotations":{"type":"object","properties":{"audience":{"type":"array","items":{"enum":["user","assistant"]}},"priority":{"type":"number","minimum":0,"maximum":1},"lastModified":{"type":"string"}}}},"oneOf":[
	{"properties":{"type":{"const":"text"},"text":{"type":"string"}},"required":["text"]},
	{"properties":{"type":{"enum":["image","audio"]},"data":{"type":"string"},"mimeType":{"type":"string"}},"required":["data","mimeType"]},
	{"properties":{"type":{"const":"resource"},"resource":{"$ref":"#/$defs/contents"}},"required":["resource"]},
	{"properties":{"type":{"const":"resource_link"},"uri":{"type":"string"},"name":{"type":"string"},"title":{"type":"string"},"description":{"type":"string"},"mimeType":{"type":"string"},"size":{"type":"integer"},
		"icons":{"type":"array","items":{"required":["src"],"properties":{"src":{"type":"string"},"mimeType":{"type":"string"},"sizes":{"type":"array","items":{"type":"string"}},"theme":{"enum":["light","dark"]}}}}},"required":["uri","name"]}]}}`

// No client refuses a result in which one member is null, of a wrong type or missing, and no word of it is lost.
func TestMutations(t *testing.T) {
	for method, all := range whole {
		shape, err := schema.Compile(json.RawMessage(`{"$defs":` + definitions + `,"allOf":[{"$ref":"#/$defs/meta"},` + shapes[method] + `]}`))
		expect.OK(t, err)
		for _, text := range all {
			var v any
			expect.OK(t, json.Unmarshal([]byte(text), &v))
			expect.Mutations(v, func() {
				raw := wire.Marshal(v)
				for _, revision := range []string{session.LatestLegacy, session.Modern} {
					got := adapt(method, revision, repaired(method, raw))
					compared := got
					if revision == session.Modern { // which takes any value there
						compared = wire.DeleteMember(got, "structuredContent")
					}
					faults, _, err := shape.Validate(t.Context(), "result", compared)
					expect.OK(t, err)
					expect.List(t, faults, nil, "%s %s became %s", method, raw, got)
					for i := range 10 {
						if word := fmt.Sprint("word", i); strings.Contains(string(raw), word) != strings.Contains(string(got), word) {
							t.Errorf("%s %s became %s: it has no %s", method, raw, got, word)
						}
					}
				}
			})
		}
	}
}
