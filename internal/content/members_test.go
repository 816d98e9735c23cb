package content

import (
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// Members that clients refuse are left out or get the type that they must have; the words stay.
func TestRepairMembers(t *testing.T) {
	const fine = `"content":[{"type":"text","text":"fine words"}]`
	block := func(s string) string { return `{"content":[` + s + `]}` }
	values := func(n int) string { return strings.TrimSuffix(strings.Repeat(`"v",`, n), ",") }
	for _, tc := range []struct{ method, result, want string }{
		{"tools/call", `{` + fine + `,"isError":null}`, `{` + fine + `}`},
		{"tools/call", `{` + fine + `,"isError":"false"}`, `{` + fine + `}`},
		{"tools/call", `{` + fine + `,"isError":"True"}`, `{` + fine + `,"isError":true}`},
		{"tools/call", `{` + fine + `,"isError":1}`, `{` + fine + `,"isError":true}`},
		{"tools/call", `{` + fine + `,"isError":[]}`, `{` + fine + `}`},
		{"tools/call", `{` + fine + `,"isError":false}`, `{` + fine + `,"isError":false}`},
		{"tools/call", block(`{"type":"text","text":"null","annotations":null}`), block(`{"type":"text","text":"null"}`)},
		{"tools/call", block(`{"type":"text","text":"x","annotations":{"audience":"user","priority":0.5}}`), block(`{"type":"text","text":"x","annotations":{"priority":0.5}}`)},
		{"tools/call", block(`{"type":"text","text":"x","annotations":{"audience":["all"],"priority":7,"lastModified":"today"}}`), block(`{"type":"text","text":"x","annotations":{}}`)},
		{"tools/call", block(`{"type":"text","text":"x","annotations":{"audience":["user"],"priority":1,"lastModified":"2025-01-12T15:00:58Z"},"_meta":{}}`), block(`{"type":"text","text":"x","annotations":{"audience":["user"],"priority":1,"lastModified":"2025-01-12T15:00:58Z"},"_meta":{}}`)},
		{"tools/call", block(`{"type":"text","text":"x","_meta":[]}`), block(`{"type":"text","text":"x"}`)},
		{"tools/call", block(`{"type":"resource_link","uri":"a:b","name":"n","description":null,"size":"3","icons":{},"title":7}`), block(`{"type":"resource_link","uri":"a:b","name":"n"}`)},
		{"tools/call", block(`{"type":"resource","resource":{"uri":"made://x","text":{"fine":"words"}}}`), block(`{"type":"resource","resource":{"uri":"made://x","text":"{\"fine\":\"words\"}"}}`)},
		{"tools/call", block(`{"type":"resource","resource":{"uri":"made://x","text":"a","mimeType":null,"_meta":null}}`), block(`{"type":"resource","resource":{"uri":"made://x","text":"a"}}`)},
		{"tasks/get", `{"taskId":"t","status":"completed","result":{"content":[7],"isError":"true"}}`, `{"taskId":"t","status":"completed","result":{"content":[{"type":"text","text":"7"}],"isError":true}}`},
		{"tasks/get", `{"taskId":"t","status":"working"}`, `{"taskId":"t","status":"working"}`},
		{"prompts/get", `{"messages":[{"role":"user","content":"fine words"}]}`, `{"messages":[{"role":"user","content":{"type":"text","text":"fine words"}}]}`},
		{"prompts/get", `{"messages":[{"role":"assistant","content":[{"type":"image","data":"` + png + `","mimeType":"image/png"}]}]}`, `{"messages":[{"role":"assistant","content":{"type":"image","data":"` + png + `","mimeType":"image/png"}}]}`},
		{"prompts/get", `{"messages":[{"role":"system","content":[{"type":"text","text":"a"},"b"]}],"description":null}`, `{"messages":[{"role":"user","content":{"type":"text","text":"a\nb"}}]}`},
		{"prompts/get", `{"messages":["a",{"content":7}]}`, `{"messages":[{"role":"user","content":{"type":"text","text":"a"}},{"content":{"type":"text","text":"7"},"role":"user"}]}`},
		{"prompts/get", `{"messages":"a"}`, `{"messages":[{"role":"user","content":{"type":"text","text":"a"}}]}`},
		{"prompts/get", `{"messages":null}`, `{"messages":[]}`},
		{"prompts/get", `{"resultType":"input_required"}`, `{"resultType":"input_required"}`},
		{"resources/read", `{"contents":{"uri":"a:b","text":"fine"}}`, `{"contents":[{"uri":"a:b","text":"fine"}]}`},
		{"resources/read", `{"contents":[{"uri":"a:b","text":7,"mimeType":1}]}`, `{"contents":[{"uri":"a:b","text":"7"}]}`},
		{"resources/read", `{"content":[{"uri":"a:b","text":"fine"}]}`, `{"content":[{"uri":"a:b","text":"fine"}],"contents":[{"uri":"a:b","text":"fine"}]}`},
		{"resources/read", `{"uri":"a:b","text":"fine"}`, `{"uri":"a:b","text":"fine","contents":[{"uri":"a:b","text":"fine"}]}`},
		{"resources/read", `{"contents":["fine"]}`, `{"contents":[{"uri":"about:blank","text":"fine"}]}`},
		{"resources/read", `{"contents":[{"uri":"a:b","blob":null,"text":"x"}]}`, `{"contents":[{"uri":"a:b","text":"x"}]}`},
		{"resources/read", `{}`, `{"contents":[]}`},
		{"tools/call", block(`{"type":"text","text":"x","annotations":{"lastModified":"2025-01-12T15:00:58,5Z"}}`), block(`{"type":"text","text":"x","annotations":{}}`)},
		{"completion/complete", `{"completion":{"values":[` + values(120) + `],"total":120}}`, `{"completion":{"values":[` + values(100) + `],"total":120,"hasMore":true}}`},
		{"completion/complete", `{"completion":{"values":[` + values(100) + `]}}`, `{"completion":{"values":[` + values(100) + `]}}`},
		{"completion/complete", `{"completion":{"text":"fine"}}`, `{"completion":{"text":"fine","values":[]}}`},
	} {
		got, what := Repair(tc.method, []byte(tc.result))
		if string(got) != tc.want || (what != "") != (tc.want != tc.result) {
			t.Errorf("%s %s:\n got %s (%s)\nwant %s", tc.method, tc.result, got, what, tc.want)
		} else if tc.method == "tools/call" && !strings.Contains(tc.result, "isError") && Fits(wire.Member([]byte(tc.result), "content"), nil, false) {
			t.Errorf("%s is not looked at", tc.result)
		}
		again, _ := Repair(tc.method, got)
		expect.Equal(t, string(again), string(got), "again")
	}
}
