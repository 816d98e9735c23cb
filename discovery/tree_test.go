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

// What is appended to a part of a tree does not reach the text.
func TestTreePartsHaveNoRoom(t *testing.T) {
	text := []byte(`{ "a" : 1 }`)
	o := tree(text).Value.(*hujson.Object)
	for what, part := range map[string][]byte{
		"the space": o.Members[0].Name.BeforeExtra, "the name": o.Members[0].Name.Value.(hujson.Literal), "the value": o.Members[0].Value.Value.(hujson.Literal),
	} {
		if cap(part) != len(part) {
			t.Errorf("there is room for %d bytes after %s", cap(part)-len(part), what)
		}
	}
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
