package server

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// No call of a token that begins after the token was removed is served, however many are under
// way and by whatever protocol. Calls of another token are.
func TestRevocationUnderLoad(t *testing.T) {
	var late, served atomic.Int64
	r := scripted(func(_ context.Context, c selector.Call) {
		served.Add(1)
		if strings.Contains(string(c.Arguments), "late") {
			late.Add(1)
		}
	})
	live, edit := editedHTTP(HTTPOptions{Tokens: tokens("one", "two")})
	w := serveWeb(t, r, Options{Mode: exposure.Direct}, live)
	params := func(arguments string) string { return `"name":"a__b","arguments":{"` + arguments + `":1}` }
	calls := map[string]func(token, arguments string, session []string) (path, body string, header []string){
		"session": func(_, arguments string, session []string) (string, string, []string) {
			return "/mcp", rpc("tools/call", params(arguments)), session
		},
		"modern": func(token, arguments string, _ []string) (string, string, []string) {
			return "/mcp", rpc("tools/call", params(arguments)+","+modernMeta), append(modernHeaders("tools/call", "a__b"), bearer(token)...)
		},
		"plain": func(token, arguments string, _ []string) (string, string, []string) {
			return "/mcp", rpc("tools/call", params(arguments)), bearer(token)
		},
		"REST": func(token, arguments string, _ []string) (string, string, []string) {
			return "/mcp/tools/call", "{" + params(arguments) + "}", bearer(token)
		},
	}
	var removed atomic.Bool
	var clients sync.WaitGroup
	began := make(chan struct{}, 100)
	for protocol, request := range calls {
		call := func(token, arguments string, session []string) (status int) {
			path, body, header := request(token, arguments, session)
			status, _ = w.text(http.MethodPost, path, body, header...)
			return status
		}
		for range 3 {
			session := w.session(bearer("one")...)
			clients.Go(func() {
				for refused := 0; refused < 5; {
					word := "early"
					is := removed.Load()
					if is {
						word = "late"
					}
					switch status := call("one", word, session); {
					case status == http.StatusUnauthorized:
						refused++
					case is:
						t.Errorf("%s: a call after the edit has the status %d", protocol, status)
						refused++
					}
					select {
					case began <- struct{}{}:
					default:
					}
				}
			})
		}
		other := w.session(bearer("two")...)
		clients.Go(func() {
			for range 20 {
				expect.Equal(t, call("two", "early", other), http.StatusOK, "%s: the token that stays has the status", protocol)
			}
		})
	}
	for range cap(began) / 2 { // calls are under way
		<-began
	}
	edit(HTTPOptions{Tokens: tokens("two")})
	removed.Store(true)
	clients.Wait()
	if n := late.Load(); n > 0 || served.Load() == 0 {
		t.Errorf("%d calls were served that began after the edit, of %d", n, served.Load())
	}
}

// What a client has open ends, although it sends nothing more, with an edit that removes or changes its
// token or the issuer of it. What another token has open goes on.
func TestRevocationEndsAll(t *testing.T) {
	token := func(change func(*clientauth.Principal)) func(*HTTPOptions) {
		return func(o *HTTPOptions) { o.Tokens = slices.Clone(o.Tokens); change(&o.Tokens[0]) }
	}
	issuer := func(change func(*clientauth.Issuer)) func(*HTTPOptions) {
		return func(o *HTTPOptions) { o.Issuers = slices.Clone(o.Issuers); change(&o.Issuers[0]) }
	}
	for _, tt := range []struct {
		name, token string
		edit        func(*HTTPOptions)
	}{
		{"removed", "one", func(o *HTTPOptions) { o.Tokens = o.Tokens[1:] }},
		{"renamed", "one", token(func(p *clientauth.Principal) { p.Name = "other" })},
		{"another role", "one", token(func(p *clientauth.Principal) { p.Admin = false })},
		{"another profile", "one", token(func(p *clientauth.Principal) { p.Profile = "work" })},
		{"no tokens at all", "one", func(o *HTTPOptions) { o.Tokens, o.Issuers = nil, nil }},
		{"issuer removed", "ann", func(o *HTTPOptions) { o.Issuers = nil }},
		{"a mistake in the issuer", "ann", issuer(func(i *clientauth.Issuer) { *i = clientauth.Issuer{} })},
		{"issuer changed", "ann", issuer(func(i *clientauth.Issuer) { i.Rules = "2" })},
		{"other scopes", "ann", issuer(func(i *clientauth.Issuer) { i.Call = nil })},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := scripted(func(ctx context.Context, _ selector.Call) {
					select {
					case <-ctx.Done():
					case <-time.After(time.Hour):
					}
				})
				pages := http.NewServeMux()
				pages.HandleFunc("GET /dashboard/events", func(w http.ResponseWriter, r *http.Request) {
					http.NewResponseController(w).Flush()
					<-r.Context().Done()
				})
				f := newFakeIssuer()
				o := f.options()
				o.Tokens = tokens("one", "kept")
				live, edit := editedHTTP(o)
				live.Pages, live.Authenticator = pages, f
				w := serveWeb(t, r, Options{Mode: exposure.Direct}, live)
				bearer, kept := bearer(tt.token), w.session(bearer("kept")...)
				session := w.session(bearer...)
				var open sync.WaitGroup
				began := time.Now()
				listen := rpc("subscriptions/listen", `"notifications":{"toolsListChanged":true},`+modernMeta)
				for name, q := range map[string]struct {
					method, path, body string
					header             []string
				}{
					"standing stream": {http.MethodGet, "/mcp", "", session},
					"page":            {http.MethodGet, "/dashboard/events", "", bearer},
					"subscription":    {http.MethodPost, "/mcp", listen, append(modernHeaders("subscriptions/listen", ""), bearer...)},
					"session's call":  {http.MethodPost, "/mcp", legacyCall, session},
					"modern call":     {http.MethodPost, "/mcp", modernCall, append(modernHeaders("tools/call", "a__b"), bearer...)},
					"plain call":      {http.MethodPost, "/mcp", legacyCall, bearer},
					"REST call":       {http.MethodPost, "/mcp/tools/call", `{"name":"a__b"}`, bearer},
				} {
					open.Go(func() {
						status, answer := w.text(q.method, q.path, q.body, q.header...)
						if strings.Contains(answer, `"result":{"content"`) || (name == "plain call" || name == "REST call") && status != http.StatusUnauthorized {
							t.Errorf("%s: %d %s", name, status, answer)
						}
						if took := time.Since(began); took > time.Minute {
							t.Errorf("%s: it ended %v after the edit", name, took)
						}
					})
				}
				time.Sleep(time.Second) // all are open
				tt.edit(&o)
				edit(o)
				open.Wait()
				if status, answer := w.text(http.MethodPost, "/mcp", legacyCall, session...); status == http.StatusOK {
					t.Errorf("the session goes on: %s", answer)
				}
				if status, answer := w.text(http.MethodPost, "/mcp", rpc("ping", ""), kept...); (status == http.StatusOK) != (o.Tokens != nil) {
					t.Errorf("the session of the other token: %d %s", status, answer)
				}
			})
		})
	}
}

// A use token uses tools, and no page.
func TestRoles(t *testing.T) {
	pages := http.NewServeMux()
	pages.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "the page") })
	pages.HandleFunc("POST /dashboard/act", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "done") })
	use := tokens("use")[0]
	use.Name, use.Admin = "ci", false
	w := serveWeb(t, newFake(tool("a", "b")), Options{Mode: exposure.Direct}, HTTPOptions{Tokens: append(tokens("admin"), use), Pages: pages})
	for _, tt := range []struct {
		method, path, body string
		use, admin         int
	}{
		{http.MethodGet, "/", "", 403, 200},
		{http.MethodPost, "/dashboard/act", "{}", 403, 200},
		{http.MethodPost, "/mcp", rpc("tools/list", ""), 200, 200},
		{http.MethodPost, "/mcp/tools/list", "{}", 200, 200},
		{http.MethodGet, "/v1/mesh_scan", "", 200, 200},
		{http.MethodGet, "/health", "", 200, 200},
		{http.MethodGet, "/nothing", "", 404, 404},
	} {
		for token, want := range map[string]int{"use": tt.use, "admin": tt.admin, "none": 401} {
			if tt.path == "/health" {
				want = 200
			}
			status, answer := w.text(tt.method, tt.path, tt.body, "Authorization", "Bearer "+token)
			if status != want || want == 403 && !strings.Contains(answer, `the token ci has the role \"use\"`) {
				t.Errorf("%s %s with the token %s: %d %s, want %d", tt.method, tt.path, token, status, answer, want)
			}
		}
	}
	if response := w.logIn("use"); response.StatusCode != 403 || len(response.Cookies()) > 0 {
		t.Errorf("a use token logs in: %d", response.StatusCode)
	}
}

// A login ends by a logout, after a while without requests, and after a week; its cookie is
// renewed until then. It ends with its token, and when that is no admin's any more.
func TestLoginEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pages := http.NewServeMux()
		pages.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
			if !clientauth.LoggedIn(r.Context()) {
				t.Error("the page does not know that the browser has logged in")
			}
		})
		pages.HandleFunc("GET /dashboard/events", func(w http.ResponseWriter, r *http.Request) {
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
		})
		live, edit := editedHTTP(HTTPOptions{Tokens: tokens("one", "two")})
		live.Pages = pages
		w := serveLogins(t, live)
		login := func(token string) []string {
			time.Sleep(time.Minute) // the limit on tries
			return cookieOf(w.logIn(token))
		}
		want := func(what string, status int, cookie []string) {
			t.Helper()
			response := w.do(http.MethodGet, "/", "", cookie...)
			response.Body.Close()
			expect.Equal(t, response.StatusCode, status, "%s", what)
		}
		out := func(header ...string) int {
			response := w.do(http.MethodPost, "/logout", "{}", header...)
			response.Body.Close()
			return response.StatusCode
		}

		first, other := login("one"), login("one")
		var stream sync.WaitGroup
		stream.Go(func() { w.text(http.MethodGet, "/dashboard/events", "", first...) })
		time.Sleep(time.Second)
		expect.Equal(t, out(append(slices.Clone(first), "Sec-Fetch-Site", "cross-site")...), 403, "another site's page logs out")
		expect.Equal(t, out(append(slices.Clone(first), "Content-Type", "text/plain")...), 403, "a form logs out")
		want("no logout yet", 200, first)
		expect.Equal(t, out(first...), 204, "logout")
		stream.Wait()
		want("after the logout", 401, first)
		want("another login with the token", 200, other)

		for range 5 {
			want("within an hour", 200, other)
			time.Sleep(10 * time.Minute)
		}
		stream.Go(func() { w.text(http.MethodGet, "/dashboard/events", "", other...) })
		time.Sleep(10 * time.Minute)
		want("after an hour", 401, other)
		stream.Wait()

		one, two := login("one"), login("two")
		forged := slices.Clone(one)
		forged[1] += "0"
		want("forged", 401, forged)
		demoted := tokens("two")
		demoted[0].Admin = false
		edit(HTTPOptions{Tokens: append(tokens("three"), demoted...)})
		want("its token was removed", 401, one)
		want("its token is no admin's", 401, two)
		time.Sleep(time.Second) // cookies count whole seconds
		edit(HTTPOptions{Tokens: tokens("one", "two")})
		want("its token is back", 401, one)
		want("its token is an admin's again", 401, two)
		want("a login since then", 200, login("one"))
	})
}
