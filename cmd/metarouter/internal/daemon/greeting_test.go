package daemon

import (
	"bytes"
	"encoding/gob"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A router and the processes of its clients may be of different versions: fields that one of them lacks do no harm.
func TestGreeting(t *testing.T) {
	sent := greeting{
		Client: Client{Program: "p 1", Profile: "work", Only: []string{"a", "b"}, LogLevel: "info", Folder: "/f", Environ: []string{"A=1", "B=\xff&="}},
		Terms:  Terms{"user": "7"}, Text: "t",
	}
	sent.Client.View.Mode, sent.Client.View.Names, sent.Client.View.FindTools = "direct", "prefixed", true
	read := func(value any) (greeting, error) {
		var b bytes.Buffer
		expect.OK(t, gob.NewEncoder(&b).Encode(value))
		return readGreeting(httptest.NewRecorder(), httptest.NewRequest("PUT", "/log", &b))
	}
	got, err := read(sent)
	expect.OK(t, err)
	if !reflect.DeepEqual(got, sent) {
		t.Errorf("got %+v", got)
	}
	got, err = read(struct {
		Client struct{ Program, New string }
		Text   string
		More   []int
	}{struct{ Program, New string }{"p", "n"}, "t", []int{1}})
	expect.OK(t, err)
	if want := (greeting{Client: Client{Program: "p"}, Text: "t"}); !reflect.DeepEqual(got, want) {
		t.Errorf("of another version: %+v", got)
	}
	_, err = read(greeting{Text: strings.Repeat("x", maxJoin)})
	expect.Error(t, err, "too large")
}
