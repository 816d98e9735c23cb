package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/login"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// fakeLogins has one login, which the principal by began.
type fakeLogins struct {
	by       string
	document []byte
	queries  []string // that came back
}

func (l *fakeLogins) Document() []byte { return l.document }

func (l *fakeLogins) Callback(_ context.Context, by, query string) (string, error) {
	l.queries = append(l.queries, query)
	if by != l.by {
		return "", errors.New("no such <login>")
	}
	return "git<hub", nil
}

var nextPage = regexp.MustCompile(`<meta http-equiv="refresh" content="0; url=([^"]*)">`)

// The redirect of an issuer, which has no cookie, continues as a page of our own origin, whose
// request has it. Only the session of whoever began the login completes it.
func TestCallback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		known := tokens("one", "two", "user")
		known[2].Admin = false
		logins := &fakeLogins{by: known[0].Hash}
		w := serveLogins(t, HTTPOptions{Tokens: known, Pages: http.NewServeMux(), Logins: logins})
		const query = "code=a%20b&state=x&iss=https%3A%2F%2Fi.example"

		status, answer := w.text(http.MethodGet, login.CallbackPath+"?"+query, "", "Accept", "text/html")
		next := nextPage.FindStringSubmatch(answer)
		if status != 200 || next == nil || html.UnescapeString(next[1]) != login.CallbackPath+"/continue?"+query {
			t.Fatalf("a redirect without a cookie: %d %s", status, answer)
		}
		path := html.UnescapeString(next[1])
		if status, answer := w.text(http.MethodGet, path, ""); status != 403 || nextPage.MatchString(answer) {
			t.Errorf("a browser without a session: %d %s", status, answer)
		}
		if status, _ := w.text(http.MethodGet, path, "", bearer("user")...); status != 403 {
			t.Errorf("the role use: %d", status)
		}
		if len(logins.queries) > 0 {
			t.Fatalf("completed without a session: %q", logins.queries)
		}
		if status, answer := w.text(http.MethodGet, path, "", cookieOf(w.logIn("two"))...); status != 400 || !strings.Contains(answer, "no such &lt;login&gt;") {
			t.Errorf("the session of another admin: %d %s", status, answer)
		}
		mine := cookieOf(w.logIn("one"))
		for _, method := range []string{http.MethodHead, http.MethodPost} { // of a preview, of a form
			response := w.do(method, path, "", mine...)
			response.Body.Close()
			expect.Equal(t, response.StatusCode, http.StatusMethodNotAllowed, "%s", method)
		}
		logins.queries = nil
		response := w.do(http.MethodGet, path, "", mine...)
		response.Body.Close()
		if response.StatusCode != 200 || len(logins.queries) != 1 || logins.queries[0] != query {
			t.Errorf("%d, %q", response.StatusCode, logins.queries)
		}
		for name, want := range map[string]string{"Cache-Control": "no-store", "Referrer-Policy": "no-referrer", "X-Content-Type-Options": "nosniff"} {
			expect.Equal(t, response.Header.Get(name), want, "%s", name)
		}
		if policy := response.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "script-src") {
			t.Errorf("the policy %s", policy)
		}
		if _, answer := w.text(http.MethodGet, login.CallbackPath+"?"+query, "", mine...); !strings.Contains(answer, "Logged in to git&lt;hub") {
			t.Errorf("with the cookie at once: %s", answer)
		}
		if status, _ := w.text(http.MethodGet, path, "", append([]string{"Host", "evil.example"}, mine...)...); status != 403 {
			t.Errorf("by another name: %d", status)
		}
		if status, _ := w.text(http.MethodGet, login.CallbackPath+"?"+strings.Repeat("x", 20<<10), ""); status != http.StatusRequestURITooLong {
			t.Errorf("a long query: %d", status)
		}
	})
}

// Where no token is asked for, whoever reaches the router completes a login.
func TestCallbackWithoutTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := serveWeb(t, newFake(tool("a", "b")), Options{Mode: exposure.Direct}, HTTPOptions{Pages: http.NewServeMux(), Logins: &fakeLogins{}})
		if status, answer := w.text(http.MethodGet, login.CallbackPath+"?code=1&state=2", ""); status != 200 || !strings.Contains(answer, "Logged in") {
			t.Errorf("%d %s", status, answer)
		}
	})
}

// Anyone reads the client ID metadata document, if there is one.
func TestClientDocument(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logins := &fakeLogins{}
		w := serveWeb(t, newFake(tool("a", "b")), Options{Mode: exposure.Direct}, HTTPOptions{Tokens: tokens("one"), Logins: logins, Rate: 1, Burst: 3})
		if status, _ := w.text(http.MethodGet, login.DocumentPath, ""); status != 404 {
			t.Errorf("without a public URL: %d", status)
		}
		logins.document = []byte(`{"client_id":"x"}`)
		response := w.do(http.MethodGet, login.DocumentPath, "")
		response.Body.Close()
		if response.StatusCode != 200 || response.Header.Get("Content-Type") != "application/json" || !strings.HasPrefix(response.Header.Get("Cache-Control"), "public") {
			t.Errorf("%d %v", response.StatusCode, response.Header)
		}
		for range 58 {
			w.text(http.MethodGet, login.DocumentPath, "", "Origin", "https://any.example")
		}
		if status, _ := w.text(http.MethodGet, login.DocumentPath, ""); status != http.StatusTooManyRequests {
			t.Errorf("the 61st request of a minute: %d", status)
		}
	})
}

// A server that refuses the router's token is no reason to refuse the client's: no answer is 401
// or 403, by which a client would log in at the router again.
func TestUpstreamRefusalIsNoRefusal(t *testing.T) {
	needed := &login.NeededError{Server: "a", Why: status.LoginExpired}
	unavailable := &status.UnavailableError{Server: "a", State: status.NeedsAuth, Reason: "HTTP 401", Login: status.NeverLoggedIn}
	for name, err := range map[string]error{
		"needed": needed, "unavailable": unavailable, "URL": &session.Error{Code: -32042, Message: "log in", Data: json.RawMessage(`{"elicitations":[]}`)},
		"their 401": &session.Error{Code: -32001, Message: "HTTP 401 Unauthorized"},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := newFake(tool("a", "b"))
			r.execute = func(context.Context, selector.Call) (selector.Result, error) {
				if e, ok := errors.AsType[*session.Error](err); ok {
					return selector.Result{}, e
				}
				return selector.Result{JSON: json.RawMessage(`{"content":[{"type":"text","text":"needs a login"}],"isError":true}`), IsError: true, Err: err}, nil
			}
			r.await = func() error { return err }
			r.relay = func(context.Context, string, session.Request) (json.RawMessage, error) { return nil, err }
			r.servers = append(r.servers, info("z", "needs_auth", 0))
			w := serveWeb(t, r, Options{Mode: exposure.Direct}, HTTPOptions{Tokens: tokens("one")})
			bearer := []string{"Authorization", "Bearer one"}
			legacy := w.session(bearer...)
			call := func(tool string) string { return fmt.Sprintf(`"name":%q,"arguments":{}`, tool) }
			for _, tool := range []string{"a__b", "z__unlisted"} {
				for _, q := range []struct {
					path, body string
					header     []string
				}{
					{"/mcp", rpc("tools/call", call(tool)), legacy},
					{"/mcp", rpc("tools/call", call(tool)+","+modernMeta), append(modernHeaders("tools/call", tool), bearer...)},
					{"/mcp", rpc("tools/call", call(tool)), bearer},
					{"/mcp/tools/call", "{" + call(tool) + "}", bearer},
					{"/mcp/call_tool", fmt.Sprintf(`{"tool":%q,"arguments":{}}`, tool), bearer},
					{"/mcp", rpc("resources/read", `"uri":"x://y"`), legacy},
					{"/mcp/resources/read", `{"uri":"x://y"}`, bearer},
				} {
					if got, answer := w.text(http.MethodPost, q.path, q.body, q.header...); got == 401 || got == 403 {
						t.Errorf("%s: %s %s: %d %s", name, q.path, q.body, got, answer)
					}
				}
			}
		})
	}
}

// A client whose person logs in gets what it asked for, also of a server that was never listed.
func TestLogInForUnlistedTool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFake(tool("a", "b"))
		r.servers = append(r.servers, info("z", "needs_auth", 0))
		r.await = func() error {
			if _, ok := r.Snapshot().Tool("z:new"); ok {
				return nil
			}
			return &status.UnavailableError{Server: "z", State: status.NeedsAuth, Login: status.NeverLoggedIn}
		}
		var who session.Caller
		r.logIn = func(_ context.Context, from session.Client, err error) (bool, error) {
			who, _ = session.CallerOf(from)
			if e, ok := errors.AsType[*status.UnavailableError](err); !ok || e.Server != "z" {
				return false, nil
			}
			r.replace("z", tool("z", "new"))
			return true, nil
		}
		w := serveWeb(t, r, Options{Mode: exposure.Direct}, HTTPOptions{Tokens: tokens("one")})
		status, answer := w.text(http.MethodPost, "/mcp", rpc("tools/call", `"name":"z__new","arguments":{}`), "Authorization", "Bearer one")
		if status != 200 || !strings.Contains(answer, `"tool":"z:new"`) {
			t.Errorf("%d %s", status, answer)
		}
		expect.Equal(t, who, (session.Caller{Principal: tokens("one")[0].Hash, Name: tokens("one")[0].Name, MayLogIn: true, OverHTTP: true}), "the caller")
	})
}
