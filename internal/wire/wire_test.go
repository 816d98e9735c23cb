package wire

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		line, id, method, params, result, err string
	}{
		{line: `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"a":[1,{"b":"}"}]}}`, id: "7", method: "tools/call", params: `{"a":[1,{"b":"}"}]}`},
		{line: ` { "id" : "x\"y" , "result" : { } } `, id: `"x\"y"`, result: `{ }`},
		{line: `{"result":1e400,"id":12345678901234567890}`, id: "12345678901234567890", result: "1e400"},
		{line: `{"\u006dethod":"ping","id":null}`, method: "ping"},
		{line: `{"id":1,"result":{},"error":null}`, id: "1", result: "{}"},
		{line: `{"id":1,"result":{}} x`, err: "unexpected bytes"},
		{line: `{"not": json}`, err: "expected a value"},
		{line: `Starting server...`, err: "not an object"},
		{line: `[{"id":1}]`, err: "not an object"},
		{line: `{"level":30,"msg":"hi"}`, err: "no JSON-RPC message"},
		{line: `{"id":{},"method":"x"}`, err: "neither a number nor a string"},
		{line: `{"id":1,"method":5}`, err: "not a string"},
		{line: "{\"id\":1,\"result\":\"a\tb\"}", err: "control character"},
		{line: `{"id":1,"result":"abc`, err: "without end"},
		{line: `{"id":1,"result":"a\x"}`, err: "invalid escape"},
		{line: `{"id":1,"result":` + strings.Repeat("[", 20000) + `}`, err: "too deep"},
		{line: `{"id":1,"result":[1,]}`, err: "expected a value"},
		{line: `{"id":1,"result":01}`, err: "expected a comma"},
		{line: ``, err: "not an object"},
	} {
		m, err := Parse([]byte(tc.line))
		if tc.err != "" {
			expect.Error(t, err, tc.err, "Parse(%.60s)", tc.line)
			continue
		}
		if err != nil || string(m.ID) != tc.id || m.Method != tc.method || string(m.Params) != tc.params || string(m.Result) != tc.result {
			t.Errorf("Parse(%s) = %s %q %s %s, %v", tc.line, m.ID, m.Method, m.Params, m.Result, err)
		}
	}
}

// The scanner accepts exactly what encoding/json accepts.
func FuzzValid(f *testing.F) {
	for _, s := range []string{`{}`, `[1,2.5e-3,"a\u00e9\n"]`, `{"a":{"b":[null,true,false]}}`, `"12345678\"abcdefgh"`, `-0.0`, `{"a"}`, "\"\x1f2345678\"", ` 1 `} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, want := Valid(b), json.Valid(b); got != want {
			t.Fatalf("Valid(%q) = %v, encoding/json says %v", b, got, want)
		}
		if Parse(b); json.Valid(b) && IsObject(b) {
			out := SetMember(b, "k", []byte(`[1]`))
			if !json.Valid(out) || string(Member(out, "k")) != "[1]" {
				t.Fatalf("SetMember(%q) = %q", b, out)
			}
		}
	})
}

func TestSetMember(t *testing.T) {
	for _, tc := range [][3]string{
		{`{}`, `{"k":1}`},
		{` { } `, ` { "k":1} `},
		{`{"a":12345678901234567890}`, `{"a":12345678901234567890,"k":1}`},
		{`{"k":{"x":2},"b":[]}`, `{"k":1,"b":[]}`},
		{`{"k":0,"k":0}`, `{"k":1,"k":1}`},
		{`nonsense`, `nonsense`},
	} {
		expect.Equal(t, string(SetMember([]byte(tc[0]), "k", []byte("1"))), tc[1], "SetMember(%s)", tc[0])
	}
}

func TestAppend(t *testing.T) {
	params, _ := ParseObject([]byte(`{"x":1}`))
	got := string(AppendRequest(nil, 3, "a\"b", params))
	expect.Equal(t, got, `{"jsonrpc":"2.0","id":3,"method":"a\"b","params":{"x":1}}`+"\n", "AppendRequest")
	expect.Equal(t, string(AppendError(nil, nil, []byte(`{}`))), `{"jsonrpc":"2.0","id":null,"error":{}}`+"\n", "AppendError")
}

func TestReader(t *testing.T) {
	long := strings.Repeat("x", 300_000)
	tooLong := strings.Repeat("y", 1_000_001)
	in := "a\n\n  \r\nb\r\n" + long + "\n" + tooLong + "\nc\n" + tooLong + long + "\nlast"
	want := []string{"a", "b", long, "!", "c", "!", "last"}
	for name, wrap := range map[string]func(io.Reader) io.Reader{
		"whole":    func(r io.Reader) io.Reader { return r },
		"halves":   iotest.HalfReader,
		"data+err": iotest.DataErrReader,
	} {
		r := NewReader(wrap(strings.NewReader(in)), 1_000_000)
		var got []string
		for {
			line, err := r.Next()
			if err == io.EOF {
				break
			}
			if errors.Is(err, ErrTooLong) {
				line = []byte("!")
			} else if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(line))
		}
		expect.Equal(t, strings.Join(got, "|"), strings.Join(want, "|"), "%s: %d lines of lengths %v", name, len(got), lengths(got))
	}
}

// The lines do not depend on the chunks in which the bytes arrive.
func FuzzReader(f *testing.F) {
	f.Add([]byte("a\nbb\n\nccc"), byte(1))
	f.Add([]byte(strings.Repeat("z", 70_000)+"\nq\n"), byte(7))
	f.Fuzz(func(t *testing.T, in []byte, chunk byte) {
		var want [][]byte
		for line := range bytes.SplitSeq(in, []byte("\n")) {
			if trimmed := bytes.TrimSpace(line); len(trimmed) > 0 {
				want = append(want, trimmed)
			}
		}
		r := NewReader(&chunks{in, int(chunk) + 1}, MaxLine)
		for _, w := range want {
			if line, err := r.Next(); err != nil || !bytes.Equal(line, w) {
				t.Fatalf("Next = %q, %v, want %q", line, err, w)
			}
		}
		if line, err := r.Next(); err != io.EOF {
			t.Fatalf("at the end: %q, %v", line, err)
		}
	})
}

type chunks struct {
	b    []byte
	size int
}

func (c *chunks) Read(p []byte) (int, error) {
	if len(c.b) == 0 {
		return 0, io.EOF
	}
	n := copy(p, c.b[:min(c.size, len(c.b))])
	c.b = c.b[n:]
	return n, nil
}

func lengths(s []string) (n []int) {
	for _, l := range s {
		n = append(n, len(l))
	}
	return n
}

func BenchmarkParse(b *testing.B) {
	payload, _ := json.Marshal(strings.Repeat(`The quick brown fox said "jump" over C:\notes.`+"\n", 20_000))
	line := []byte(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":` + string(payload) + `}]}}`)
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		_, err := Parse(line)
		expect.OK(b, err)
	}
}

func TestAbridge(t *testing.T) {
	long := strings.Repeat(`\"x`, 10)
	for in, want := range map[string]string{
		`{"a":"` + long + `","` + long + `" : "b","c":["` + long + `"]}`: `{"a":"\u0000abridged","` + long + `" : "b","c":["\u0000abridged"]}`,
		`"` + long + `" `: `"\u0000abridged" `,
		`{"a":1}`:         `{"a":1}`,
		`{"a":"` + long:   `{"a":"` + long,
	} {
		expect.Equal(t, string(Abridge([]byte(in), 20)), want, "%s", in)
	}
}

func TestAddMember(t *testing.T) {
	for in, want := range map[string]string{
		`{}`:             `{"k":1}`,
		" { } ":          ` { "k":1} `,
		`{"a":{"k":2} }`: `{"a":{"k":2} ,"k":1}`,
	} {
		expect.Equal(t, string(AddMember([]byte(in), "k", []byte("1"))), want, "%s", in)
	}
}
