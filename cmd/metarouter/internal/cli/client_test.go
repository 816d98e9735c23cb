package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"testing"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/admin"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/console"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/service"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// answering returns a client of a router that answers all requests alike, and its output on stderr.
func answering(status int, text string) (*apiClient, *bytes.Buffer) {
	var notes bytes.Buffer
	e := &Env{Console: console.New(nil, io.Discard, &notes), Runner: &service.Runner{Files: &configfile.Source{}}}
	return &apiClient{Env: e, routers: []http.RoundTripper{inProcess{http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		io.WriteString(w, text)
	})}}}, &notes
}

// Notes are printed once, and are no part of the answer that a command prints.
func TestNotes(t *testing.T) {
	c, notes := answering(http.StatusOK, `{"servers":[],"notes":["one","two\nlines"]}`)
	var shown admin.Servers
	for range 2 {
		expect.OK(t, c.send(t.Context(), "/", nil, &shown))
	}
	if text, _ := json.Marshal(shown); string(text) != `{"servers":[]}` || notes.String() != "one\ntwo lines\n" {
		t.Errorf("answer %s, notes %q", text, notes)
	}
}

// The status of an answer decides on the exit code.
func TestRefusals(t *testing.T) {
	for _, test := range []struct {
		status int
		text   string
		code   int
		says   string
	}{
		{400, `{"error":"no such thing","notes":["n"]}`, console.BadUsage, "no such thing"},
		{404, `{"error":"no such server"}`, console.BadUsage, "no such server"},
		{409, `{"error":"it does not start"}`, console.Failed, "it does not start"},
		{413, "too large\n", console.Failed, "the running router answers 413 too large"},
	} {
		c, _ := answering(test.status, test.text)
		err := c.send(t.Context(), "/", struct{}{}, &admin.Servers{})
		code := console.Failed
		if e, ok := errors.AsType[*console.Error](err); ok {
			code = e.Code
		}
		if err == nil || err.Error() != test.says || code != test.code {
			t.Errorf("%d: %v, code %d; want %q, %d", test.status, err, code, test.says, test.code)
		}
	}
}
