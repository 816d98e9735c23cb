package conversation

import (
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/wire"
)

func TestAdapt(t *testing.T) {
	for _, tc := range []struct {
		name, method, version, result, want string
		note                                string // in _meta.repaired, "" if nothing has changed
	}{
		{"what is right keeps its bytes", "tools/call", "2025-11-25",
			`{ "x":1e400, "content":[{"type":"image","mimeType":"a/b","data":"AA==","new":[1]}], "structuredContent":{} }`,
			`{ "x":1e400, "content":[{"type":"image","mimeType":"a/b","data":"AA==","new":[1]}], "structuredContent":{} }`, ""},
		{"what the modern era adds", "tools/call", "2025-11-25",
			`{"resultType":"complete","content":[],"ttlMs":1,"cacheScope":"public"}`, `{"content":[]}`, ""},
		{"a new content type", "tools/call", "2025-11-25",
			`{"content":[{"type":"hologram","n":9007199254740993},{"type":"text","text":"a"}]}`,
			`{"content":[{"type":"text","text":"{\"type\":\"hologram\",\"n\":9007199254740993}"},{"type":"text","text":"a"}]`, `content[0]: made text, since clients do not know the type "hologram"`},
		{"a type that is too new for the client", "tools/call", "2024-11-05",
			`{"content":[{"type":"audio","data":"AA==","mimeType":"audio/wav"}]}`,
			`{"content":[{"type":"text","text":"{\"type\":\"audio\",\"data\":\"AA==\",\"mimeType\":\"audio/wav\"}"}]`, "clients of 2024-11-05 do not know"},
		{"structured content that is no object", "tools/call", "2025-11-25",
			`{"content":[],"structuredContent":[1,2]}`, `{"content":[{"type":"text","text":"[1,2]"}]`, "structuredContent: moved to content"},
		{"structured content that is no object and is shown", "tools/call", "2025-11-25",
			`{"content":[{"type":"text","text":"[1,2]"}],"structuredContent":[1,2]}`, `{"content":[{"type":"text","text":"[1,2]"}]`, "structuredContent: moved to content"},
		{"no content", "tools/call", "2025-11-25", `{"task":{"taskId":"a"}}`, `{"task":{"taskId":"a"}}`, ""},
		{"next to an older note", "tools/call", "2025-11-25",
			`{"content":[{"type":"new"}],"_meta":{"repaired":"arguments: parsed"}}`,
			`{"content":[{"type":"text","text":"{\"type\":\"new\"}"}],"_meta":{"repaired":"arguments: parsed; content[0]`, "arguments: parsed; content[0]"},
		{"a prompt", "prompts/get", "2025-11-25",
			`{"messages":[{"role":"user","content":{"type":"new"}},{"role":"user","content":{"type":"text","text":"a"}}]}`,
			`{"messages":[{"role":"user","content":{"type":"text","text":"{\"type\":\"new\"}"}},{"role":"user","content":{"type":"text","text":"a"}}]`, "messages[0].content: made text"},
		{"another method", "completion/complete", "2025-11-25", `{"completion":{"values":[]}}`, `{"completion":{"values":[]}}`, ""},
		{"no object", "tools/call", "2025-11-25", `[1]`, `[1]`, ""},
	} {
		got := adapt(tc.method, tc.version, []byte(tc.result))
		note, _ := wire.String(wire.Member(wire.Member(got, "_meta"), "repaired"))
		if !strings.HasPrefix(string(got), tc.want) || tc.note == "" && string(got) != tc.want || !strings.Contains(note, tc.note) || !wire.Valid(got) {
			t.Errorf("%s:\n got %s\nwant %s\nwith the note %s", tc.name, got, tc.want, tc.note)
		}
	}
}

func FuzzAdapt(f *testing.F) {
	f.Add(`{"content":[{"type":"new"}],"structuredContent":[],"resultType":1}`)
	f.Add(`{"content":{},"contents":[{}],"messages":[{"content":{"type":"resource","resource":{}}}]}`)
	f.Fuzz(func(t *testing.T, result string) {
		if !wire.Valid([]byte(result)) || !wire.IsObject([]byte(result)) {
			return
		}
		for _, method := range []string{"tools/call", "prompts/get", "resources/read"} {
			got := adapt(method, "2025-11-25", []byte(result))
			if !wire.Valid(got) {
				t.Errorf("%s: %s became %s", method, result, got)
			}
			if again := adapt(method, "2025-11-25", got); string(again) != string(got) {
				t.Errorf("%s: %s is adapted again to %s", method, got, again)
			}
		}
	})
}
