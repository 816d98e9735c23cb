package discovery

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	"github.com/tailscale/hujson"
)

// FuzzTree checks that tree does what the library does.
func FuzzTree(f *testing.F) {
	for _, text := range []string{
		`null`, `-1.5e+3`, `""`, `"a\"\\"`, `{}`, `[]`, "{ \n}", "[ \t]", `[1,true,"x"]`, `[ 1 , [ ] , {} ]`,
		`{"a":1,"b":[false],"c":{"d":"]}"}}`, "{ \"a\" : 1 ,\r\n\"b\"\t: { } }",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		text = bytes.TrimSpace(text)
		if !json.Valid(text) || len(text) > 1000 {
			return
		}
		want, err := hujson.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		forgetOffsets(&want)
		if got := tree(text); !reflect.DeepEqual(got, want) || !bytes.Equal(got.Pack(), text) {
			t.Errorf("%s\ngot  %#v\nwant %#v", text, got, want)
		}
	})
}

func forgetOffsets(v *hujson.Value) {
	v.StartOffset, v.EndOffset = 0, 0
	switch of := v.Value.(type) {
	case *hujson.Object:
		for i := range of.Members {
			forgetOffsets(&of.Members[i].Name)
			forgetOffsets(&of.Members[i].Value)
		}
	case *hujson.Array:
		for i := range of.Elements {
			forgetOffsets(&of.Elements[i])
		}
	}
}
