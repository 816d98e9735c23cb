package wire

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// everything returns what a Reader of objects returns of the text, and how often it was too long.
func everything(r io.Reader, max int) (all []string, long int) {
	lines := NewReader(r, max)
	lines.Objects = true
	for {
		line, err := lines.Next()
		switch {
		case errors.Is(err, ErrTooLong):
			long++
		case err != nil:
			return all, long
		default:
			all = append(all, string(line))
		}
	}
}

func TestObjects(t *testing.T) {
	for text, want := range map[string][]string{
		"":                          nil,
		" \n\n{}\n":                 {"{}"},
		"{}{}\n{}":                  {"{}", "{}", "{}"},
		"{\n  \"a\": [\n1\n]}\n{}":  {"{\n  \"a\": [", "1", "]}", "{}"}, // a number begins no line
		"{\n  \"a\": [\n 1\n]}\n{}": {"{\n  \"a\": [\n 1\n]}", "{}"},
		"{\"}\":\"\\\"}\"}text\n{}": {"{\"}\":\"\\\"}\"}", "text", "{}"},
		"{\n{}\n":                   {"{", "{}"},
		"{\"a\n{}\n":                {"{\"a", "{}"},
		"text {}\n{}\n":             {"text {}", "{}"},
		"]\n{}\n":                   {"]", "{}"},
		"{ \n\n }":                  {"{ \n\n }"},
		string(BOM) + "{}\n":        {string(BOM) + "{}"},
		"{\n 1":                     {"{\n 1"},
	} {
		if got, _ := everything(strings.NewReader(text), 100); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
		if text[:min(len(text), 3)] == string(BOM) {
			continue
		}
		if got, _ := everything(iotest.OneByteReader(strings.NewReader(text)), 100); !slices.Equal(got, want) {
			t.Errorf("%q byte by byte: %q, want %q", text, got, want)
		}
	}
	if got, long := everything(strings.NewReader(strings.Repeat("{\n \n", 1)+strings.Repeat(" x\n", 100)+"{}"), 100); long != 1 || got[len(got)-1] != "{}" {
		t.Errorf("an object without end: %d times too long, then %q", long, got)
	}
}

func TestAgain(t *testing.T) {
	r := NewReader(strings.NewReader("{}{}\n{}\n"), 100)
	line, _ := r.Next()
	r.Again(line)
	r.Objects = true
	var shapes []Shape
	for range 3 {
		if line, err := r.Next(); string(line) != "{}" || err != nil {
			t.Errorf("%q, %v", line, err)
		}
		shapes = append(shapes, r.Shape)
	}
	expect.List(t, shapes, []Shape{Part, Line, Line}, "shapes")
}

// Nothing is lost, but white space and what is too long.
func FuzzObjects(f *testing.F) {
	f.Add([]byte("{\n \"a\":1}\ntext{}{}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		got, _ := everything(bytes.NewReader(text), 1<<20)
		blank := strings.NewReplacer(" ", "", "\t", "", "\r", "", "\n", "", "\v", "", "\f", "", "\u0085", "", "\u00a0", "")
		if len(text) < 1<<20 && blank.Replace(strings.Join(got, "")) != blank.Replace(string(text)) {
			t.Errorf("%q became %q", text, got)
		}
	})
}

func TestMerge(t *testing.T) {
	for _, test := range []struct{ first, second, want string }{
		{`{"a":1}`, `{}`, `{"a":1}`}, {`{ } `, `{"a":1}`, `{"a":1}`}, {`{"a":1}`, `{"a":2,"\u0061":3,"q\"":4}`, `{"a":1,"q\"":4}`},
		{`{"a":1,"b":{}}`, `{"x":[1], "a":2,"y":"\n"}`, `{"a":1,"b":{},"x":[1],"y":"\n"}`},
	} {
		expect.Equal(t, string(Merge([]byte(test.first), []byte(test.second))), test.want, "%s and %s", test.first, test.second)
	}
}
