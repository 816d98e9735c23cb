package wire

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		`{"a":[1,-0.5e+3,true,false,null,"x\u00e9\n\ud83d\ude00"],"b":{},"c":[],"a":2}`, ` [ ] `, `{"a":}`, `[1,]`, `"`, `01`, `{"a":1}x`, "",
		strings.Repeat("[", 300), `{"\ud800":"` + "\xff" + `"}`, `nul`, `-`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := Decode(b)
		d := json.NewDecoder(bytes.NewReader(b))
		d.UseNumber()
		var want any
		wantErr := d.Decode(&want)
		if wantErr == nil && !json.Valid(b) || !utf8.Valid(b) {
			return // more follows the value, or it is not UTF-8
		}
		if (err == nil) != (wantErr == nil) || err == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("%q\ngot  %#v, %v\nwant %#v, %v", b, got, err, want, wantErr)
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	text := []byte(`{"path":"docs/a.md","limit":10,"tags":["x","y"],"deep":{"a":true}}`)
	b.ReportAllocs()
	for b.Loop() {
		_, err := Decode(text)
		expect.OK(b, err)
	}
}

// TestCount checks that values are counted, and not texts in strings that look like values.
func TestCount(t *testing.T) {
	for value, n := range map[string]int{`{"a":1,"b":[2,3]}`: 5, `"a,[{\",,,,"`: 1, `[{},[],"x\\",","]`: 5, `[1,2`: 3, `"\`: 1} {
		expect.Equal(t, Count([]byte(value)), n, "%s", value)
	}
}
