package wire

import (
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestParseFaults(t *testing.T) {
	nested := func(levels int) string {
		return `{"id":1,"result":` + strings.Repeat("[", levels) + strings.Repeat("]", levels) + "}"
	}
	for _, tc := range []struct {
		line, want string
		fault      error
	}{
		{line: `{"id":1,"result":"é, 世界, 🦉"}`},
		{line: "{\"id\":1,\"result\":\"caf\xe9\"}", fault: ErrNotUTF8},
		{line: "{\"id\":1,\"result\":{\"caf\xe9 and more\":1}}", fault: ErrNotUTF8},
		{line: "{\"id\":1,\"result\":\"\xed\xa0\x80\"}", fault: ErrNotUTF8}, // half a pair, as bytes
		{line: "{\"id\":1,\"result\":\"\xc0\x80\"}", fault: ErrNotUTF8},     // an overlong NUL
		{line: "{\"id\":1,\"result\":\"12345678\xf0\x9f\"}", fault: ErrNotUTF8},
		{line: nested(MaxLevels)},
		{line: nested(MaxLevels + 1), fault: ErrTooDeep},
		{line: `{"id":1,"result":"\ud83e\udd89 \\ud800 \u0000 \u00e9"}`},
		{line: `{"id":1,"result":"\ud800"}`, want: `{"id":1,"result":"\ufffd"}`},
		{line: `{"id":1,"result":"\uDC00x"}`, want: `{"id":1,"result":"\ufffdx"}`},
		{line: `{"id":1,"result":"\uD83E\uDD89\udc00"}`, want: `{"id":1,"result":"\uD83E\uDD89\ufffd"}`},
		{line: `{"id":1,"result":"\ud800\ud83e\udd89"}`, want: `{"id":1,"result":"\ufffd\ud83e\udd89"}`},
		{line: `{"id":1,"result":"\ud800\\udc00"}`, want: `{"id":1,"result":"\ufffd\\udc00"}`},
		{line: `{"id":1,"result":"\\\ud800"}`, want: `{"id":1,"result":"\\\ufffd"}`},
		{line: `{"id":1,"result":{"\udfffk":"\uD900"}}`, want: `{"id":1,"result":{"\ufffdk":"\ufffd"}}`},
	} {
		line := []byte(tc.line)
		m, err := Parse(line)
		if err != nil || m.Fault != tc.fault {
			t.Errorf("%.60q: fault %v, error %v, want %v", tc.line, m.Fault, err, tc.fault)
		}
		if tc.want == "" {
			tc.want = tc.line
		}
		expect.Equal(t, string(line), tc.want, "%q became %q", tc.line, line)
	}
	if m, _ := Parse([]byte("{\"id\":\"\xff\",\"method\":\"x\"}")); m.ID != nil {
		t.Errorf("an id that is not UTF-8 is kept: %q", m.ID)
	}
}

// What Parse finds no fault in can be read by a strict reader, and is what encoding/json reads.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"id":1,"result":"\ud800\udc00 \udc00"}`))
	f.Add([]byte("{\"id\":1,\"method\":\"\xff\"}"))
	f.Fuzz(func(t *testing.T, line []byte) {
		before := string(line)
		m, err := Parse(line)
		if err != nil {
			return
		}
		if valid := utf8.Valid(line); valid == (m.Fault == ErrNotUTF8) {
			t.Fatalf("%q: fault %v", before, m.Fault)
		}
		var was, is any
		json.Unmarshal([]byte(before), &was)
		json.Unmarshal(line, &is)
		if a, b := Marshal(was), Marshal(is); string(a) != string(b) {
			t.Fatalf("%q means %s, and meant %s", line, b, a)
		}
		once := string(line)
		if replaceLone(line); string(line) != once {
			t.Fatalf("%q became %q, and then %q", before, once, line)
		}
	})
}

func TestLooseID(t *testing.T) {
	for line, want := range map[string]string{
		`{"jsonrpc":"2.0","id":7,"method":"m","params":{"s":"` + "\x00" + `"}}`:   `7`,
		`{"method":"m","params":{"s":"` + "\x00" + `"},"jsonrpc":"2.0","id":"a"}`: `"a"`,
		`{"method":"m","params":{"s":"` + "\x00" + `"},"jsonrpc":"2.0"}`:          ``,
		`{"method":"m","params":{"s":"` + "\x00" + `","id":3}}`:                   ``,
		"\x00":           ``,
		"\x00\"id\":}":   ``,
		"\x00\"id\":{}}": ``,
	} {
		expect.Equal(t, string(LooseID(Ends{Head: []byte(line), Tail: []byte(line)})), want, "%q", line)
	}
}

// The ends of a line that is too long are kept, however it is read.
func TestSkipped(t *testing.T) {
	line := `{"jsonrpc":"2.0","id":7,"result":"` + strings.Repeat("x", 300_000) + `","last":true}`
	for _, size := range []int{1, 100, 5000, 1 << 20} {
		r := NewReader(&chunks{[]byte(line + "\nnext\n"), size}, 100_000)
		if _, err := r.Next(); !errors.Is(err, ErrTooLong) {
			t.Fatal(err)
		}
		ends := r.Skipped()
		if !strings.HasPrefix(line, string(ends.Head)) || !strings.HasSuffix(line, string(ends.Tail)) || len(ends.Head) != maxEnd || len(ends.Tail) != maxEnd {
			t.Errorf("chunks of %d: %.40q … (%d bytes) %q (%d bytes)", size, ends.Head, len(ends.Head), ends.Tail, len(ends.Tail))
		}
		if next, err := r.Next(); string(next) != "next" || err != nil {
			t.Errorf("then %q, %v", next, err)
		}
		_, err := r.Next()
		expect.Equal(t, err, io.EOF)
	}
}
