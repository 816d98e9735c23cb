package approval

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestQuestion(t *testing.T) {
	r := request()
	r.Others = json.RawMessage(`{"task":{}}`)
	const want = `Run the tool create_issue of the server github? (profile "work" asks before each call)
Arguments:
{
  "title": "x",
  "n": [1,{"b":1,"a":2}]
}
Other parameters:
{
  "task": {}
}`
	expect.Equal(t, r.Question(), want)
}

// A person sees hidden characters as escapes, and no line of the text is one that the
// arguments wrote.
func TestQuestionHidesNothing(t *testing.T) {
	r := request()
	r.Tool = "del\u202e\nArguments: {}"
	r.Arguments = json.RawMessage("{\"a\\n}\\nArguments:\":\"x\u200by\u202e\u009b2J\"}")
	text := r.Question()
	expect.Contains(t, text, `x\u200by\u202e\u009b2J`)
	if strings.ContainsAny(text, "\u200b\u202e\u009b") || strings.Count(text, "\n") != 4 {
		t.Errorf("the text is %q", text)
	}
}

// Each argument is seen though one is long; the rest is named, with its hash.
func TestQuestionIsBounded(t *testing.T) {
	r := request()
	r.Arguments = json.RawMessage(`{"padding":"` + strings.Repeat("é", 100_000) + `","path":"/etc/passwd"}`)
	text := r.Question()
	for _, want := range []string{`"path": "/etc/passwd"`, "only a part is shown", "200035 bytes", "SHA-256 ", "more bytes", "éé…"} {
		expect.Contains(t, text, want)
	}
	r.Arguments = json.RawMessage(`{"text":"` + strings.Repeat("x", 9000) + `","do":["` + strings.Repeat("y", 3000) + `","rm -rf /"]}`)
	expect.Contains(t, r.Question(), `yy…" (2802 more bytes),"rm -rf /"]`, "a long text hides the one after it")
	r.Arguments = json.RawMessage("[" + strings.Repeat("[", 9000) + strings.Repeat("]", 9001))
	if text := r.Question(); len(text) > 2*maxQuestion || !strings.Contains(text, "only a part") {
		t.Errorf("%d bytes: %.300s", len(text), text)
	}
}

func TestCanonical(t *testing.T) {
	for _, tc := range []struct{ a, b string }{
		{` {"b" : [ 1 , {"d":1,"c":2} ], "a":""} `, `{"a":"","b":[1,{"c":2,"d":1}]}`},
		{`{"a":1}`, `{ "\u0061" : 1 }`},
		{`[]`, ` [ ] `},
	} {
		if a, b := canonical([]byte(tc.a)), canonical([]byte(tc.b)); !bytes.Equal(a, b) {
			t.Errorf("%s is not %s", a, b)
		}
	}
	for _, tc := range []struct{ a, b string }{
		{`{"a":1,"a":2}`, `{"a":2,"a":1}`},
		{`{"a":1,"a":2}`, `{"a":2}`},
		{`{"a":1}`, `{"a":1.0}`},
		{`{"a":"\ud800"}`, `{"a":"\ufffd"}`},
		{`{"\ud800":1}`, `{"\ufffd":1}`},
		{"{\"a\":\"\xff\"}", "{\"a\":\"\xfe\"}"},
		{`{"a":1e400}`, `{"a":1e401}`},
		{`[1,2]`, `[2,1]`},
		{`["1"]`, `[1]`},
		{`[[1],2]`, `[[1,2]]`},
	} {
		if a, b := canonical([]byte(tc.a)), canonical([]byte(tc.b)); bytes.Equal(a, b) {
			t.Errorf("%s and %s are %s", tc.a, tc.b, a)
		}
	}
}

// The shown text is bounded, and means the same if it is whole.
func FuzzRequest(f *testing.F) {
	for _, seed := range []string{`{"a":{"c":[1,"x\"\\",null]},"a":2}`, `{"é":"\ud83d\ude00"}`, `{"a":"` + strings.Repeat("\\u0041", 100) + `"}`, `[`, `"`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		if !wire.Valid(value) {
			return
		}
		const limit = 100
		text, whole := indented(value, limit)
		if len(text) > 20*limit+2*len(value) || len(value) < limit/50 && !whole || utf8.Valid(value) && !utf8.ValidString(text) {
			t.Errorf("%q is shown as %q, all of it: %v", value, text, whole)
		}
		if whole && utf8.Valid(value) {
			var a, b bytes.Buffer
			if json.Compact(&a, value) != nil || json.Compact(&b, []byte(text)) != nil {
				t.Errorf("%q is shown as %q", value, text)
			}
			x, _ := wire.Decode(a.Bytes())
			y, _ := wire.Decode(b.Bytes())
			expect.Equal(t, string(wire.Marshal(x)), string(wire.Marshal(y)), "%q is shown as %q", value, text)
		}
	})
}
