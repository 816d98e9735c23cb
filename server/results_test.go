package server

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// long answers with a long text between other things.
func long(text string, tokens int) *fakeRouter {
	r := newFake(tool("a", "b"))
	r.execute = func(context.Context, selector.Call) (selector.Result, error) {
		return selector.Result{Limit: tokens, JSON: fmt.Appendf(nil,
			`{"x":1,"content":[{"type":"image","data":"%s","mimeType":"image/png"},{"type":"text","text":%s},{"type":"text","text":"end"}],"structuredContent":{"all":%s},"_meta":{"server":"a"}}`,
			strings.Repeat("A", 9000), wire.Marshal(text), wire.Marshal(text))}, nil
	}
	return r
}

type cutResult struct {
	Content []struct {
		Type, Text, URI, Data string
		Size                  int
	}
	Structured map[string]string `json:"structuredContent"`
	Meta       struct {
		Server    string
		Truncated *truncation
	} `json:"_meta"`
	X       int
	IsError bool
}

func (c *client) result(t *testing.T, line string) (r cutResult) {
	t.Helper()
	m, err := wire.Parse([]byte(c.ask(line)))
	if err != nil || json.Unmarshal(m.Result, &r) != nil {
		t.Fatalf("%s %s, %v", m.Result, m.Error, err)
	}
	return r
}

// A long text is cut, and the rest can be read piece by piece or as a resource.
// Nothing else is touched.
func TestLongResult(t *testing.T) {
	text := strings.Repeat("äöü\n", 3000) // 21,000 bytes
	c := initialized(t, long(text, 1000), Options{Mode: exposure.Direct, LimitsResults: true})
	expect.Contains(t, c.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`), `"read_result"`, "read_result is not listed")
	r := c.result(t, `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"a__b"}}`)
	whole := text + "\nend"
	if r.X != 1 || r.Structured["all"] != text || len(r.Content) != 4 || len(r.Content[2].Data) != 9000 || r.Meta.Server != "a" {
		t.Errorf("got %.500v", r)
	}
	shown := r.Content[0].Text
	if !strings.HasPrefix(whole, shown) || len(shown) < 3990 || len(shown) > 4000 {
		t.Errorf("%d bytes are shown: …%q", len(shown), shown[len(shown)-10:])
	}
	link := r.Content[3]
	if cut := r.Meta.Truncated; link.Type != "resource_link" || link.Size != len(whole) || cut == nil || *cut != (truncation{Bytes: len(whole), Shown: len(shown), URI: link.URI}) {
		t.Errorf("link %+v, truncated %+v", link, cut)
	}
	expect.Contains(t, r.Content[1].Text, fmt.Sprintf(`read_result {"uri": %q, "offset": %d}`, link.URI, len(shown)), "note")
	for id := 3; len(shown) < len(whole); id++ {
		piece := c.result(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"read_result","arguments":{"uri":%q,"offset":%d,"limit":5000}}}`, id, link.URI, len(shown)))
		if piece.IsError || piece.Content[0].Text == "" || (len(piece.Content) == 2) != (len(shown)+len(piece.Content[0].Text) < len(whole)) {
			t.Fatalf("piece %+v", piece)
		}
		shown += piece.Content[0].Text
	}
	expect.Equal(t, shown, whole, "the pieces are not the whole")
	read := c.ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":90,"method":"resources/read","params":{"uri":%q}}`, link.URI))
	expect.Contains(t, read, fmt.Sprintf(`"text":%s,"uri":%s}]`, wire.Marshal(whole), wire.Marshal(link.URI)), "as a resource")
	for args, want := range map[string]string{
		fmt.Sprintf(`{"uri":%q,"offset":99999}`, link.URI): "behind the end",
		`{"uri":"metarouter-result:x"}`:                    "no result is kept",
		fmt.Sprintf(`{"uri":%q,"offset":-1}`, link.URI):    "arguments.offset",
	} {
		r := c.result(t, fmt.Sprintf(`{"jsonrpc":"2.0","id":91,"method":"tools/call","params":{"name":"read_result","arguments":%s}}`, args))
		if !r.IsError || !strings.Contains(r.Content[0].Text, want) {
			t.Errorf("%s: %+v", args, r)
		}
	}
}

// What is short enough, or not limited, stays byte for byte.
func TestShortResult(t *testing.T) {
	for _, tokens := range []int{0, 50_000, 251} {
		r := long(strings.Repeat("x", 1000), tokens)
		want, _ := r.execute(t.Context(), selector.Call{})
		if got, err := perform(t.Context(), newAlone(r, Options{Mode: exposure.Direct}), []byte(`{"name":"a__b"}`)); err != nil || string(got) != string(want.JSON) {
			t.Errorf("%d tokens: %.200s, %v", tokens, got, err)
		}
	}
}
