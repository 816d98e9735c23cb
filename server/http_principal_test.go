package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/secret"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A call that needs another scope is refused with 403 and the scopes to ask for, by every
// protocol, before an answer begins. What is not there, or not allowed, is an unknown tool.
func TestStepUp(t *testing.T) {
	f := newFakeIssuer()
	f.proofs["rita-work"] = f.proof("rita", clientauth.Principal{Reads: true, Profile: "work"}, "tools.read")
	w := serveIssued(t, f.options())
	session, batches := w.session(bearer("rita")...), w.batches(bearer("rita")...)
	for _, tt := range []struct {
		tool   string
		status int
		want   string
	}{
		{"a__read", 200, `"result"`},
		{"a__write", 403, ""},
		{"a:write", 403, ""},
		{"write", 403, ""},
		{"none", 200, `"error"`},
		{"list_categories", 200, `"result"`},
	} {
		params := `"name":"` + tt.tool + `","arguments":{}`
		call := rpc("tools/call", params)
		for name, q := range map[string]struct {
			path, body string
			header     []string
		}{
			"session":       {"/mcp", call, session},
			"modern":        {"/mcp", rpc("tools/call", params+","+modernMeta), append(modernHeaders("tools/call", tt.tool), bearer("rita")...)},
			"plain":         {"/mcp", call, bearer("rita")},
			"plain, work":   {"/mcp/p/work", call, bearer("rita")},
			"token of work": {"/mcp", call, bearer("rita-work")},
			"batch":         {"/mcp", "[" + rpc("ping", "") + "," + call + "]", batches},
			"REST":          {"/mcp/tools/call", "{" + params + "}", bearer("rita")},
			"call_tool":     {"/mcp", rpc("tools/call", `"name":"call_tool","arguments":{"tool":"`+tt.tool+`"}`), bearer("rita")},
		} {
			response := w.do(http.MethodPost, q.path, q.body, q.header...)
			answer, _ := io.ReadAll(response.Body)
			response.Body.Close()
			challenge := response.Header.Get("WWW-Authenticate")
			if tt.status == 403 {
				if response.StatusCode != 403 || !strings.HasPrefix(challenge, `Bearer error="insufficient_scope"`) || !strings.HasSuffix(challenge, `tools.read tools.call"`) {
					t.Errorf("%s, %s: %d %s %s", tt.tool, name, response.StatusCode, challenge, answer)
				}
				continue
			}
			if wrong := name == "REST" && tt.tool == "none"; response.StatusCode != tt.status && !wrong || challenge != "" {
				t.Errorf("%s, %s: %d %s %s", tt.tool, name, response.StatusCode, challenge, answer)
			}
			if name == "plain" && !strings.Contains(string(answer), tt.want) {
				t.Errorf("%s: %s", tt.tool, answer)
			}
		}
	}
	writes := rpc("tools/call", `"name":"a__write","arguments":{}`)
	if status, answer := w.text(http.MethodPost, "/mcp", writes, bearer("ann")...); status != 200 || !strings.Contains(answer, `"result"`) {
		t.Errorf("with the scope for calls: %d %s", status, answer)
	}
	if _, answer := w.text(http.MethodPost, "/mcp", rpc("tools/list", ""), bearer("rita")...); strings.Contains(answer, "write") || !strings.Contains(answer, "a__read") {
		t.Errorf("the list for those who read: %s", answer)
	}
}

// A refreshed token of the same user keeps the session; no other principal has it.
func TestSessionOfIssuersPrincipal(t *testing.T) {
	f := newFakeIssuer()
	f.proofs["promoted"] = f.proof("ann", clientauth.Principal{Profile: "work"}, "tools.call")
	o := f.options()
	o.Tokens = tokens("fixed")
	w := serveIssued(t, o)
	session := w.session(bearer("ann")...)
	for token, want := range map[string]int{"ann": 200, "ann2": 200, "bob": 404, "rita": 404, "promoted": 404, "fixed": 404, "expired": 401} {
		status, answer := w.text(http.MethodPost, "/mcp", rpc("tools/call", `"name":"a__write","arguments":{}`), append(slices.Clone(session), bearer(token)...)...)
		if status != want && !(token == "rita" && status == 403) {
			t.Errorf("%s: %d %s", token, status, answer)
		}
	}
}

// A stream ends within a minute when its token proves nothing more; a call does not, and an
// issuer that is down ends it only when the token expires.
func TestStreamsEndWithTheirToken(t *testing.T) {
	for _, tt := range []struct {
		name string
		edit func(*fakeIssuer)
		ends time.Duration // after the edit, at most; 0 is never
	}{
		{"good", func(*fakeIssuer) {}, 0},
		{"expired", func(f *fakeIssuer) {
			f.judge("ann", clientauth.Proof{}, &clientauth.Refusal{Status: 401, Reason: "it has expired"})
		}, time.Minute},
		{"not enough", func(f *fakeIssuer) {
			f.judge("ann", clientauth.Proof{}, &clientauth.Refusal{Status: 403, Reason: "no profile"})
		}, time.Minute},
		{"another profile", func(f *fakeIssuer) { f.judge("ann", f.proof("ann", clientauth.Principal{Profile: "work"}), nil) }, time.Minute},
		{"issuer down", func(f *fakeIssuer) { f.judge("ann", clientauth.Proof{}, io.EOF) }, 62 * time.Minute},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := scripted(func(ctx context.Context, _ selector.Call) {
					select {
					case <-time.After(3 * time.Hour):
					case <-ctx.Done():
					}
				})
				f := newFakeIssuer()
				w := serveWeb(t, r, Options{Mode: exposure.Direct}, f.options())
				session := w.session(bearer("ann")...)
				f.asked()
				ctx, leave := context.WithTimeout(t.Context(), 2*time.Hour)
				defer leave()
				open := func(method, body string, header []string) time.Duration {
					q, _ := http.NewRequestWithContext(ctx, method, "http://localhost/mcp", strings.NewReader(body))
					for i := 0; i < len(header); i += 2 {
						q.Header.Set(header[i], header[i+1])
					}
					q.Header.Set("Content-Type", "application/json")
					began := time.Now()
					response, err := w.client.Do(q)
					if err == nil {
						io.Copy(io.Discard, response.Body)
						response.Body.Close()
					}
					return time.Since(began)
				}
				var streams, calls sync.WaitGroup
				stream := func(what, method, body string, header []string) {
					streams.Go(func() {
						took := open(method, body, header)
						if tt.ends == 0 && took < 2*time.Hour || tt.ends > 0 && took > tt.ends+2*time.Second || tt.ends > time.Hour && took < 59*time.Minute {
							t.Errorf("%s lasted %v", what, took)
						}
					})
				}
				stream("the stream of the session", http.MethodGet, "", session)
				stream("the subscription", http.MethodPost, rpc("subscriptions/listen", `"notifications":{"toolsListChanged":true},`+modernMeta), append(modernHeaders("subscriptions/listen", ""), bearer("ann")...))
				calls.Go(func() {
					if took := open(http.MethodPost, modernCall, append(modernHeaders("tools/call", "a__b"), bearer("ann")...)); took < 2*time.Hour {
						t.Errorf("the call was cut after %v", took)
					}
				})
				time.Sleep(time.Second)
				tt.edit(f)
				streams.Wait()
				if asked := len(f.asked()); asked > 2*121+10 {
					t.Errorf("%d tokens were judged", asked)
				}
				calls.Wait()
			})
		})
	}
}

// Refused tokens of one address must wait, and no good one from there, which may be a proxy's: neither
// a new one, nor one that was good and must be renewed.
func TestRefusedTokensAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeIssuer()
		o := f.options()
		o.Tokens = tokens("fixed")
		w := serveIssued(t, o)
		ping := func(token string) int {
			status, _ := w.text(http.MethodPost, "/mcp", `{"id":1,"method":"ping"}`, bearer(token)...)
			return status
		}
		ping("ann")
		for i := range 60 {
			if status := ping(fmt.Sprint("guess", i)); status != 401 {
				t.Fatal(i, status)
			}
		}
		for token, want := range map[string]int{"guess": 429, "bob": 200, "ann": 200, "nowhere": 403, "unavailable": 503, "fixed": 200, "": 401} {
			expect.Equal(t, ping(token), want, "%s", token)
		}
		f.judge("ann", clientauth.Proof{}, &clientauth.Refusal{Status: 401, Genuine: true, Reason: "it has expired"})
		expect.Equal(t, ping("ann"), 401, "a good token that has expired")
		response := w.do(http.MethodPost, "/mcp", `{"id":1,"method":"ping"}`, bearer("guess")...)
		response.Body.Close()
		if wait := response.Header.Get("Retry-After"); wait != "1" || response.Header.Get("WWW-Authenticate") != "" {
			t.Errorf("a refused token must wait %q s: %v", wait, response.Header)
		}
		time.Sleep(time.Minute)
		expect.Equal(t, ping("guess"), 401, "a minute later")
	})
}

// The audit log has who was refused and who came, and is not flooded.
func TestAuditOfRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var events []audit.Event
		f := newFakeIssuer()
		o := f.options()
		o.Audit = func(e audit.Event) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, e)
		}
		take := func() []audit.Event {
			mu.Lock()
			defer mu.Unlock()
			all := events
			events = nil
			return all
		}
		w := serveIssued(t, o)
		ask := func(path, token string) {
			w.text(http.MethodPost, path, rpc("ping", ""), bearer(token)...)
		}
		ask("/mcp", "ann")
		ask("/mcp", "ann2")
		ask("/mcp/p/work", "bob")
		ask("/mcp", "nowhere")
		ask("/mcp", "expired")
		w.text(http.MethodPost, "/mcp", rpc("ping", ""))
		w.text(http.MethodPost, "/mcp", rpc("ping", ""), "Authorization", "Basic YTpi")
		w.text(http.MethodPost, "/mcp", rpc("tools/call", `"name":"a__write"`), bearer("rita")...)
		var lines, reasons []string
		for _, e := range take() {
			expect.Equal(t, e.From, "pipe", "from")
			lines = append(lines, strings.Join([]string{e.Action, e.Outcome, e.Principal, e.Target}, "|"))
			if e.Outcome == audit.Refused && !strings.HasPrefix(e.Principal, "rita ") {
				reasons = append(reasons, e.Reason)
			}
			if strings.Contains(fmt.Sprint(e), "Bearer") || secret.Looks(e.Reason) {
				t.Errorf("%+v", e)
			}
		}
		const of = " (https://id.example.com)"
		want := []string{"request|ok|ann" + of + "|/mcp", "request|ok|bob" + of + "|/mcp/p/work", "request|refused|cid" + of + "|/mcp", "request|refused||/mcp", "request|refused||/mcp", "request|refused||/mcp", "request|ok|rita" + of + "|/mcp", "request|refused|rita" + of + "|/mcp"}
		expect.List(t, lines, want)
		expect.List(t, reasons, []string{"no rule of profiles matches its user", `it has "expired"`, "no token", "unknown token"})
		time.Sleep(2 * time.Minute)
		for range 100 {
			ask("/mcp", "")
		}
		expect.Equal(t, len(take()), 30, "events in a minute")
		time.Sleep(2 * time.Second)
		ask("/mcp", "")
		if all := take(); len(all) != 2 || !strings.HasPrefix(all[0].Reason, "70 more requests") {
			t.Errorf("%+v", all)
		}
	})
}

// Web pages of allowed origins may call MCP, with tokens that they hold; no others may.
func TestWebPagesOfAllowedOrigins(t *testing.T) {
	o := newFakeIssuer().options()
	o.AllowedOrigins = []string{"https://app.example.com"}
	w := serveIssued(t, o)
	for _, tt := range []struct {
		method, path, origin, token string
		preflight                   bool
		status                      int
		allowed                     bool
	}{
		{http.MethodOptions, "/mcp", "https://app.example.com", "", true, 204, true},
		{http.MethodOptions, "/mcp/p/work", "https://app.example.com", "", true, 204, true},
		{http.MethodOptions, "/mcp/tools/list", "https://app.example.com", "", true, 204, true},
		{http.MethodOptions, "/mcp", "https://app.example.com", "", false, 401, true},
		{http.MethodOptions, "/mcp", "https://evil.example", "", true, 403, false},
		{http.MethodOptions, "/mcp", "http://localhost:1234", "", true, 401, false},
		{http.MethodOptions, "/v1/mesh_scan", "https://app.example.com", "", true, 401, false},
		{http.MethodPost, "/mcp", "https://app.example.com", "ann", false, 200, true},
		{http.MethodPost, "/mcp", "https://app.example.com", "", false, 401, true},
		{http.MethodPost, "/mcp", "https://app.example.com", "unavailable", false, 503, true},
		{http.MethodPost, "/mcp", "https://evil.example", "ann", false, 403, false},
		{http.MethodPost, "/mcp", "", "ann", false, 200, false},
	} {
		var header []string
		if tt.origin != "" {
			header = append(header, "Origin", tt.origin)
		}
		if tt.token != "" {
			header = append(header, bearer(tt.token)...)
		}
		if tt.preflight {
			header = append(header, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization,mcp-session-id")
		}
		response := w.do(tt.method, tt.path, `{"id":1,"method":"ping"}`, header...)
		response.Body.Close()
		h := response.Header
		allow := h.Get("Access-Control-Allow-Origin")
		if response.StatusCode != tt.status || (allow == tt.origin && allow != "") != tt.allowed || allow != "" && !tt.allowed || h.Get("Access-Control-Allow-Credentials") != "" {
			t.Errorf("%+v: %d %v", tt, response.StatusCode, h)
		}
		if tt.allowed && (!strings.Contains(h.Get("Access-Control-Expose-Headers"), "WWW-Authenticate") || h.Get("Vary") != "Origin") {
			t.Errorf("%+v: %v", tt, h)
		}
		if tt.status == 204 && !strings.Contains(h.Get("Access-Control-Allow-Headers"), "Authorization") {
			t.Errorf("%+v: %v", tt, h)
		}
	}
}

// A verified certificate of a client stands for a principal of the options, unless the client
// sends a token. What the connection did not verify counts nothing.
func TestClientCertificates(t *testing.T) {
	f := newFakeIssuer()
	known := tokens("build")
	known[0].Name = "build"
	w := serveIssued(t, HTTPOptions{Tokens: known, Authenticator: f})
	leaf := new(x509.Certificate)
	for _, tt := range []struct {
		name   string
		state  *tls.ConnectionState
		hash   string
		token  string
		status int
	}{
		{"verified", &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{leaf}}}, known[0].Hash, "", 200},
		{"not verified", &tls.ConnectionState{PeerCertificates: []*x509.Certificate{leaf}}, known[0].Hash, "", 401},
		{"no TLS", nil, known[0].Hash, "", 401},
		{"no rule", &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{leaf}}}, "", "", 401},
		{"unknown principal", &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{leaf}}}, strings.Repeat("0", 64), "", 401},
		{"a bad token", &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{leaf}}}, known[0].Hash, "x", 401},
		{"a good token", nil, "", "build", 200},
	} {
		f.certified = tt.hash
		q := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "http://localhost/mcp", strings.NewReader(`{"id":1,"method":"ping"}`))
		q.Header.Set("Content-Type", "application/json")
		if tt.token != "" {
			q.Header.Set("Authorization", "Bearer "+tt.token)
		}
		q.TLS = tt.state
		answer := httptest.NewRecorder()
		w.handler.ServeHTTP(answer, q)
		expect.Equal(t, answer.Code, tt.status, "%s: … %s", tt.name, answer.Body)
	}
}
