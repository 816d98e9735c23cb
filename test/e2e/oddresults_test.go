//go:build unix

package e2e

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/test/layer"
)

// What a client would not show, and what a model's API would refuse, is repaired for clients of both
// eras and servers of both, and for clients over stdio and in a command.
func TestOddResults(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	const jpeg = "/9j/4AAQSkZJRgABAQEAYABgAAD/2Q=="
	for _, era := range []string{"legacy", "modern"} {
		s := prepare(t, entries{"odd": fake("-tools", "answer", "-era", era)}, nil)
		for _, revision := range []string{"2024-11-05", "2025-11-25", "modern"} {
			c := s.start()
			if revision == "modern" {
				if _, err := c.Discover(within(t)); err != nil {
					t.Fatal(err)
				}
			} else if _, err := c.Request(within(t), "initialize", map[string]any{"protocolVersion": revision, "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "t", "version": "1"}}); err != nil {
				t.Fatal(err)
			}
			for _, tc := range []struct{ result, want, note string }{
				{`{"content":"all good"}`, `[{"type":"text","text":"all good"}]`, "content"},
				{`{"content":{"type":"text","text":"x"}}`, `[{"type":"text","text":"x"}]`, "content"},
				{`{"content":[],"structuredContent":{"n":3}}`, `[{"type":"text","text":"{\"n\":3}"}]`, "structuredContent"},
				{`{"structuredContent":[3]}`, `[{"type":"text","text":"[3]"}]`, "structuredContent"},
				{`{"content":[{"type":"image","mimeType":"image/png","data":"` + jpeg + `"}]}`, `[{"type":"image","mimeType":"image/jpeg","data":"` + jpeg + `"}]`, "corrected"},
				{`{"content":[{"type":"image","mimeType":"image/svg+xml","data":"PHN2Zz4="}]}`, `[{"type":"text","text":"<svg>"}]`, "made text"},
				{`{"content":[{"type":"image","mimeType":"image/jpeg","data":"` + jpeg + `"}]}`, `[{"type":"image","mimeType":"image/jpeg","data":"` + jpeg + `"}]`, ""},
				{`{"content":[]}`, `[]`, ""},
			} {
				r := mustCall(t, c, "odd__answer", `{"result":`+tc.result+`}`)
				note, _ := r.Meta["repaired"].(string)
				if got := wire.Member(r.raw, "content"); string(got) != tc.want || !strings.Contains(note, tc.note) || (note == "") != (tc.note == "") {
					t.Errorf("server %s, client %s: %s became %s (%s), want %s (%s)", era, revision, tc.result, got, note, tc.want, tc.note)
				}
			}
			own := mustCall(t, c, "odd__answer", `{"result":{"success":true,"configs":[1]}}`)
			if !json.Valid([]byte(own.text())) || !strings.Contains(own.text(), `"success":true,"configs":[1]`) {
				t.Errorf("server %s, client %s: a shape of its own became %s", era, revision, own.raw)
			}
		}
		if out, _, code := s.run("doctor"); code != 0 || !strings.Contains(out, "repairs its results: content: made an array of text (3 times)") {
			t.Errorf("doctor: %q, %d", out, code)
		}
		if out, _, code := s.run("servers", "--json"); code != 0 || !strings.Contains(out, `"repairs": "repaired results: content: made an array of text (3 times)`) {
			t.Errorf("servers: %q, %d", out, code)
		}
		if out, _, code := s.run("call", "odd:answer", `result={"content":"all good"}`); code != 0 || !strings.Contains(out, "all good") {
			t.Errorf("call: %q, %d", out, code)
		}
	}
}
