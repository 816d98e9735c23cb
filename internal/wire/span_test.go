package wire

import "testing"

func TestSpan(t *testing.T) {
	for object, want := range map[string]string{
		`{"a":1,"name":"x"}`:         `"x"`,
		`{ "name" : "x\"y" , "b":2}`: `"x\"y"`,
		`{"a":{"name":"inner"}}`:     "",
		`{"name":"x","name":"y"}`:    "",
		`{"name":`:                   "",
		`[]`:                         "",
		``:                           "",
	} {
		start, end, ok := Span([]byte(object), "name")
		if got := object[start:end]; ok != (want != "") || ok && got != want {
			t.Errorf("%s: %q, %v; want %q", object, got, ok, want)
		}
	}
}
