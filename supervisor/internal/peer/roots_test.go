package peer

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestRootsShown(t *testing.T) {
	const theirs = `{"roots":{"listChanged":true},"sampling":{}}`
	for _, tc := range []struct {
		roots Roots
		want  string
	}{
		{nil, theirs},
		{Roots{}, `{"sampling":{}}`},
		{Roots{"/a"}, `{"roots":{},"sampling":{}}`},
	} {
		expect.Equal(t, string(tc.roots.Shown(json.RawMessage(theirs))), tc.want, "%q", tc.roots)
	}
	params, _ := stamp(json.RawMessage(`{}`), Roots{}, session.Request{From: &client{capabilities: theirs}}, 7)
	theirMeta := json.RawMessage(`{"` + metaCapabilities + `":` + theirs + `}`)
	modern, _ := stamp(json.RawMessage(`{}`), Roots{}, session.Request{Meta: theirMeta, From: &client{capabilities: theirs}}, 7)
	if all := string(params) + string(modern); strings.Contains(all, "roots") || strings.Count(all, "sampling") != 2 {
		t.Errorf("requests carry %s", all)
	}
}

// The handshake does not offer roots that the server does not get.
func TestHandshakeWithoutRoots(t *testing.T) {
	p, s := pair(t)
	p.host.Roots = Roots{}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- p.Handshake(ctx, Greeting{Known: LegacyEra, Capabilities: json.RawMessage(`{"roots":{},"sampling":{}}`)})
	}()
	expect.Equal(t, string(wire.Member(s.read().Params, "capabilities")), `{"sampling":{}}`, "initialize declares")
	cancel()
	<-done
}

func TestFileURI(t *testing.T) {
	for path, want := range map[string]string{
		"/home/ann/a b": "file:///home/ann/a%20b",
		"C:/Users/ann":  "file:///C:/Users/ann",
		"//host/share":  "file://host/share",
		"/a#b?c":        "file:///a%23b%3Fc",
	} {
		expect.Equal(t, fileURI(path), want, "%s", path)
	}
}

// A server gets the roots of its entry, whoever its client is, and does not learn that those of
// the client have changed.
func TestFixedRoots(t *testing.T) {
	for _, tc := range []struct {
		roots Roots
		want  string
	}{
		{Roots{}, `{"roots":[]}`},
		{Roots{"file:///b"}, `{"roots":[{"uri":"file:///b"}]}`},
	} {
		p, s := pair(t)
		p.host.Roots = tc.roots
		c := clientOf("c")
		for _, owner := range []session.Client{c, nil} {
			p.host.Owner = func() session.Client { return owner }
			p.NotifyLater("notifications/roots/list_changed", nil)
			p.Receive(wire.Message{ID: json.RawMessage("5"), Method: "roots/list", Params: json.RawMessage("{}")}, 0)
			if m := s.read(); string(m.Result) != tc.want {
				t.Fatalf("%q, owner %v: %s%s, want %s", tc.roots, owner, m.Method, m.Result, tc.want)
			}
		}
		if !p.Questions.RootsSent() {
			t.Error("the server counts as one without roots")
		}

		// A modern server asks in a result. A modern client does not see the request for roots.
		p.agreed.meta = json.RawMessage(`{}`)
		c.modern = true
		go func() {
			s.write(`{"id":%s,"result":{"resultType":"input_required","inputRequests":{"e":{"method":"elicitation/create","params":{}},"r":{"method":"roots/list"}}}}`, s.read().ID)
			again := s.read()
			expect.Equal(t, string(wire.Member(again.Params, "inputResponses")), `{"e":{"by":"c","to":"elicitation/create","params":{}},"r":`+tc.want+`}`, "%q: the request was repeated with", tc.roots)
			s.write(`{"id":%s,"result":{"resultType":"complete"}}`, again.ID)
		}()
		if result, err := p.Call(t.Context(), session.Request{Method: "tools/call", From: c}); err != nil || string(result) != `{"resultType":"complete"}` {
			t.Errorf("Call = %s, %v", result, err)
		}
	}
}
