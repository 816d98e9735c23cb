package content

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/wire"
)

const (
	png  = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
	jpeg = "/9j/4AAQSkZJRgABAQEAYABgAAD/2Q=="
	wav  = "UklGRiQAAABXQVZFZm10IBAAAAABAAEA"
	svg  = `<svg xmlns="http://www.w3.org/2000/svg"/>`
)

func TestRepairCall(t *testing.T) {
	text := func(s string) string { return `{"content":[` + string(TextBlock(s)) + `]` }
	for _, tc := range []struct{ name, result, want, what string }{
		{"what is right keeps its bytes", `{ "x":1e400, "content":[ {"type":"text","text":"{\"image\":1}"} ], "structuredContent":{} }`, `{ "x":1e400, "content":[ {"type":"text","text":"{\"image\":1}"} ], "structuredContent":{} }`, ""},
		{"nothing to say", `{"content":[]}`, `{"content":[]}`, ""},
		{"nothing to say, and null", `{"content":[ ],"structuredContent":null}`, `{"content":[ ],"structuredContent":null}`, ""},
		{"a string", `{"content":"all good"}`, text("all good") + "}", "made an array of text"},
		{"an empty string", `{"content":""}`, text("") + "}", "made an array of text"},
		{"a number", `{"content":7}`, text("7") + "}", "made an array of text"},
		{"an object", `{"content":{"n":1.0}}`, text(`{"n":1.0}`) + "}", "made an array of text"},
		{"a block", `{"content":{"type":"text","text":"x"}}`, text("x") + "}", "made an array"},
		{"a block that is a picture", `{"content":{"type":"image","mimeType":"image/png","data":"` + jpeg + `"}}`, `{"content":[{"type":"image","mimeType":"image/jpeg","data":"` + jpeg + `"}]}`, "corrected the type"},
		{"null", `{"content":null}`, text("null") + "}", "made an array of text"},
		{"null in a shape of its own", `{"content":null,"rows":[1]}`, text(`{"content":null,"rows":[1]}`) + `,"rows":[1]}`, "the JSON of the result"},
		{"a shape of its own", `{"success":true,"configs":[1]}`, `{"success":true,"configs":[1],"content":[{"type":"text","text":"{\"success\":true,\"configs\":[1]}"}]}`, "the JSON of the result"},
		{"an empty object", `{}`, `{"content":[{"type":"text","text":"{}"}]}`, "the JSON of the result"},
		{"an error without text", `{"isError":true}`, `{"isError":true,"content":[{"type":"text","text":"{\"isError\":true}"}]}`, "the JSON of the result"},
		{"structured content only", `{"structuredContent":{"n":3}}`, `{"structuredContent":{"n":3},"content":[{"type":"text","text":"{\"n\":3}"}]}`, "structuredContent"},
		{"structured content and null", `{"content":null,"structuredContent":[3]}`, text("[3]") + `,"structuredContent":[3]}`, "structuredContent"},
		{"structured content and an empty array", `{"content":[],"structuredContent":{"n":3}}`, text(`{"n":3}`) + `,"structuredContent":{"n":3}}`, "structuredContent"},
		{"strings in the array", `{"content":["a",{"type":"text","text":"b"},1]}`, `{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"},{"type":"text","text":"1"}]}`, "content[0]: made text; content[2]"},
		{"a task that no one asked for", `{"task":{"taskId":"a"}}`, `{"task":{"taskId":"a"},"content":[{"type":"text","text":"{\"task\":{\"taskId\":\"a\"}}"}]}`, "content: added the JSON of the result, which had none"},
		{"a modern task", `{"resultType":"task","taskId":"a"}`, `{"resultType":"task","taskId":"a"}`, ""},
		{"a question", `{"resultType":"input_required","inputRequests":{}}`, `{"resultType":"input_required","inputRequests":{}}`, ""},
		{"no object", `[1]`, `[1]`, ""},
	} {
		got, what := Repair("tools/call", []byte(tc.result))
		if string(got) != tc.want || !strings.Contains(what, tc.what) || (tc.what == "") != (what == "") {
			t.Errorf("%s:\n got %s (%s)\nwant %s (%s)", tc.name, got, what, tc.want, tc.what)
		}
	}
}

func TestMedia(t *testing.T) {
	encode := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	block := func(kind, mime, data string) string {
		return `{"type":"` + kind + `","mimeType":"` + mime + `","data":"` + data + `","annotations":{"priority":1}}`
	}
	text := func(s string) string {
		return `{"type":"text","annotations":{"priority":1},"text":` + string(wire.AppendString(nil, s)) + `}`
	}
	for _, tc := range []struct{ name, block, want, what string }{
		{"a picture", block("image", "image/png", png), block("image", "image/png", png), ""},
		{"a picture in escapes", block("image", "image\\/jpeg", `\/9j\/4AAQSkZJRgABAQEAYABgAAD\/2Q==`), block("image", "image\\/jpeg", `\/9j\/4AAQSkZJRgABAQEAYABgAAD\/2Q==`), ""},
		{"a sound", block("audio", "audio/x-wav", wav), block("audio", "audio/x-wav", wav), ""},
		{"a sound that is not known", block("audio", "audio/pcm", "AAAA"), block("audio", "audio/pcm", "AAAA"), ""},
		{"a picture that is not known", block("image", "image/heic", "AAAA"), block("image", "image/heic", "AAAA"), ""},
		{"a wrong type", block("image", "image/png", jpeg), block("image", "image/jpeg", jpeg), "corrected"},
		{"an alias that models refuse", block("image", "image/jpg", jpeg), block("image", "image/jpeg", jpeg), "corrected"},
		{"no type", block("image", "", png), block("image", "image/png", png), "corrected"},
		{"a wrong kind", block("audio", "audio/wav", png), block("image", "image/png", png), "corrected"},
		{"a picture that is a sound", block("image", "image/png", wav), block("audio", "audio/wav", wav), "corrected"},
		{"an MP3 named WAV", block("audio", "audio/wav", "//uQAAAA"), block("audio", "audio/mpeg", "//uQAAAA"), "corrected"},
		{"a data URL", block("image", "image/png", "data:image/png;base64,"+png), block("image", "image/png", png), "plain base64"},
		{"a data URL with a wrong type", block("image", "image/png", "DATA:image/png;base64,"+jpeg), block("image", "image/jpeg", jpeg), "plain base64, corrected"},
		{"line ends", block("image", "image/png", png[:40]+`\n`+png[40:]+`\r\n`), block("image", "image/png", png), "plain base64"},
		{"no padding, for URLs", block("image", "image/jpeg", strings.TrimRight(strings.ReplaceAll(jpeg, "/", "_"), "=")), block("image", "image/jpeg", jpeg), "plain base64"},
		{"an SVG", block("image", "image/svg+xml", encode(svg)), text(svg), "made text"},
		{"an SVG named PNG", block("image", "image/png", encode(`<?xml version="1.0"?>`+svg)), text(`<?xml version="1.0"?>` + svg), "made text"},
		{"an SVG as it is", block("image", "image/svg+xml", "<svg/>"), text("<svg/>"), "made text"},
		{"an SVG in a data URL", block("image", "image/svg+xml", "data:image/svg+xml,%3Csvg/%3E"), text("<svg/>"), "made text"},
		{"empty", block("image", "image/png", ""), text(`[The tool returned an image of type "image/png" that can't be shown: its data is empty]`), "empty"},
		{"an empty data URL", block("image", "image/png", "data:image/png;base64,"), text(`[The tool returned an image of type "image/png" that can't be shown: its data is empty]`), "empty"},
		{"an empty sound", block("audio", "audio/wav", ""), text(`[The tool returned an audio of type "audio/wav" that can't be shown: its data is empty]`), "empty"},
		{"no base64", block("image", "image/png", "!!"), text(`[The tool returned an image of type "image/png" that can't be shown: its data is not base64: "!!"]`), "not base64"},
		{"something else", block("image", "image/png", "AAAA"), text(`[The tool returned an image of type "image/png" that can't be shown: its data is something else]`), "something else"},
		{"no data", `{"type":"image","url":"https://x"}`, `{"type":"text","text":"{\"type\":\"image\",\"url\":\"https://x\"}"}`, "no data"},
		{"a resource", `{"type":"resource","resource":{"uri":"a:b","mimeType":"image/png","blob":"` + jpeg + `"}}`, `{"type":"resource","resource":{"uri":"a:b","mimeType":"image/jpeg","blob":"` + jpeg + `"}}`, "content[0].resource: corrected"},
		{"a resource that is an SVG", `{"type":"resource","resource":{"uri":"a:b","mimeType":"image/svg+xml","blob":"` + encode(svg) + `"}}`, `{"type":"resource","resource":{"uri":"a:b","mimeType":"image/svg+xml","text":` + string(wire.AppendString(nil, svg)) + `}}`, "made text"},
		{"a resource that is no picture", `{"type":"resource","resource":{"uri":"a:b","mimeType":"x/y","blob":"!!"}}`, `{"type":"resource","resource":{"uri":"a:b","mimeType":"x/y","text":"!!"}}`, "made plain base64, or text"},
	} {
		result := []byte(`{"content":[` + tc.block + `]}`)
		got, what := Repair("tools/call", result)
		if string(got) != `{"content":[`+tc.want+`]}` || !strings.Contains(what, tc.what) || (tc.what == "") != (what == "") {
			t.Errorf("%s:\n got %s (%s)\nwant %s (%s)", tc.name, got, what, tc.want, tc.what)
		}
		if !strings.HasPrefix(tc.block, `{"type":"image`) && !strings.HasPrefix(tc.block, `{"type":"audio`) {
			continue
		}
		if got, _ := Repair("prompts/get", []byte(`{"messages":[{"role":"user","content":`+tc.block+`}]}`)); string(got) != `{"messages":[{"role":"user","content":`+tc.want+`}]}` {
			t.Errorf("%s in a prompt: %s", tc.name, got)
		}
	}
	got, what := Repair("resources/read", []byte(`{"contents":[{"uri":"a:b","mimeType":"image/gif","blob":"`+png+`"}]}`))
	if string(got) != `{"contents":[{"uri":"a:b","mimeType":"image/png","blob":"`+png+`"}]}` || !strings.Contains(what, "contents[0]: corrected") {
		t.Errorf("a resource: %s (%s)", got, what)
	}
}

// All of many blocks are repaired, and the notes are bounded.
func TestManyRepairs(t *testing.T) {
	result := `{"content":[` + strings.TrimSuffix(strings.Repeat(`{"type":"image","mimeType":"image/png","data":""},`, 100), ",") + `]}`
	got, what := Repair("tools/call", []byte(result))
	if n := strings.Count(string(got), `"type":"text"`); n != 100 || strings.Count(what, ";") != maxNotes {
		t.Errorf("%d repaired: %s", n, what)
	}
	again := `{"content":[{"type":"text","text":"x"` + strings.Repeat(`,"title":null`, 100) + `}]}`
	if got, what = Repair("tools/call", []byte(again)); string(got) != `{"content":[{"type":"text","text":"x"}]}` || strings.Count(what, "title") != 1 {
		t.Errorf("a member that comes again is left out each time: %s (%s)", got, what)
	}
}

func FuzzRepair(f *testing.F) {
	f.Add(`{"content":[{"type":"image","mimeType":"image/png","data":"data:,x"}],"structuredContent":[]}`)
	f.Add(`{"messages":[{"content":{"type":"audio","data":"\/\/uQ"}}],"contents":[{"mimeType":"image/x","blob":"PHN2Zz4="}],"content":"x"}`)
	f.Fuzz(func(t *testing.T, result string) {
		if m, err := wire.Parse([]byte(`{"id":1,"result":` + result + `}`)); err != nil || m.Fault != nil || !wire.IsObject([]byte(result)) {
			return
		}
		for _, method := range []string{"tools/call", "prompts/get", "resources/read"} {
			got, what := Repair(method, []byte(result))
			if !wire.Valid(got) || what == "" && string(got) != result {
				t.Errorf("%s: %s became %s (%s)", method, result, got, what)
			}
			if again, _ := Repair(method, got); string(again) != string(got) {
				t.Errorf("%s: %s is repaired again to %s", method, got, again)
			}
		}
	})
}

func BenchmarkRepairPicture(b *testing.B) {
	result := []byte(`{"content":[{"type":"image","mimeType":"image/png","data":"` + png[:92] + strings.Repeat("AAAA", 250_000) + `"}]}`)
	b.ReportAllocs()
	b.SetBytes(int64(len(result)))
	for b.Loop() {
		if _, what := Repair("tools/call", result); what != "" {
			b.Fatal(what)
		}
	}
}
