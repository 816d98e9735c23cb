package daemon

import (
	"bytes"
	"encoding/gob"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A greeting keeps all bytes of its strings, and is bounded.
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
	expect.Deep(t, got, sent)
	_, err = read(greeting{Text: strings.Repeat("x", maxJoin)})
	expect.Error(t, err, "too large")
}
