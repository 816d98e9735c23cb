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
)

// liveOptions are HTTP options that a test edits.
type liveOptions struct {
	mu     sync.Mutex
	now    *HTTPOptions
	edited chan struct{}
}

func newLive(o HTTPOptions) *liveOptions {
	return &liveOptions{now: &o, edited: make(chan struct{})}
}

func (l *liveOptions) live() (*HTTPOptions, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now, l.edited
}

// tokens replaces the tokens.
func (l *liveOptions) tokens(all ...clientauth.Principal) {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := *l.now
	next.Tokens = all
	l.now = &next
	close(l.edited)
	l.edited = make(chan struct{})
}

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
	l := newLive(HTTPOptions{Tokens: tokens("one", "two")})
	w := serveWeb(t, r, Options{Mode: exposure.Direct}, HTTPOptions{Live: l.live})
	params := func(arguments string) string { return `"name":"a__b","arguments":{"` + arguments + `":1}` }
	calls := map[string]func(token, arguments string, session []string) (status int){
		"session": func(_, arguments string, session []string) int {
			status, _ := w.text(http.MethodPost, "/mcp", rpc("tools/call", params(arguments)), session...)
			return status
		},
		"modern": func(token, arguments string, _ []string) int {
			status, _ := w.text(http.MethodPost, "/mcp", rpc("tools/call", params(arguments)+","+modernMeta), append(modernHeaders("tools/call", "a__b"), "Authorization", "Bearer "+token)...)
			return status
		},
		"plain": func(token, arguments string, _ []string) int {
			status, _ := w.text(http.MethodPost, "/mcp", rpc("tools/call", params(arguments)), "Authorization", "Bearer "+token)
			return status
		},
		"REST": func(token, arguments string, _ []string) int {
			status, _ := w.text(http.MethodPost, "/mcp/tools/call", "{"+params(arguments)+"}", "Authorization", "Bearer "+token)
			return status
		},
	}
	var removed atomic.Bool
	var clients sync.WaitGroup
	began := make(chan struct{}, 100)
	for protocol, call := range calls {
		for range 3 {
			session := w.session("Authorization", "Bearer one")
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
		other := w.session("Authorization", "Bearer two")
		clients.Go(func() {
			for range 20 {
				if status := call("two", "early", other); status != http.StatusOK {
					t.Errorf("%s: the token that stays has the status %d", protocol, status)
				}
			}
		})
	}
	for range cap(began) / 2 { // calls are under way
		<-began
	}
	l.tokens(tokens("two")...)
	removed.Store(true)
	clients.Wait()
	if n := late.Load(); n > 0 || served.Load() == 0 {
		t.Errorf("%d calls were served that began after the edit, of %d", n, served.Load())
	}
}

// What a client has open ends with its token, and when the token's name, profile or role
// changes, although it sends nothing more.
func TestRevocationEndsAll(t *testing.T) {
	one := tokens("one")[0]
	renamed, demoted, moved := one, one, one
	renamed.Name, demoted.Admin, moved.Profile = "other", false, "work"
	for _, tt := range []struct {
		name string
		now  []clientauth.Principal
	}{
		{"removed", tokens("two")},
		{"renamed", []clientauth.Principal{renamed}},
		{"another role", []clientauth.Principal{demoted}},
		{"another profile", []clientauth.Principal{moved}},
		{"no tokens at all", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := scripted(func(ctx context.Context, _ selector.Call) { <-ctx.Done() })
				pages := http.NewServeMux()
				pages.HandleFunc("GET /dashboard/events", func(w http.ResponseWriter, r *http.Request) {
					http.NewResponseController(w).Flush()
					<-r.Context().Done()
				})
				l := newLive(HTTPOptions{Tokens: []clientauth.Principal{one}})
				w := serveWeb(t, r, Options{Mode: exposure.Direct}, HTTPOptions{Live: l.live, Pages: pages})
				bearer := []string{"Authorization", "Bearer one"}
				session := w.session(bearer...)
				var open sync.WaitGroup
				began := time.Now()
				for name, ask := range map[string]func() (int, string){
					"standing stream": func() (int, string) { return w.text(http.MethodGet, "/mcp", "", session...) },
					"page":            func() (int, string) { return w.text(http.MethodGet, "/dashboard/events", "", bearer...) },
					"subscription": func() (int, string) {
						return w.text(http.MethodPost, "/mcp", rpc("subscriptions/listen", `"notifications":{"toolsListChanged":true},`+modernMeta), append(modernHeaders("subscriptions/listen", ""), bearer...)...)
					},
					"session's call": func() (int, string) { return w.text(http.MethodPost, "/mcp", legacyCall, session...) },
					"modern call": func() (int, string) {
						return w.text(http.MethodPost, "/mcp", modernCall, append(modernHeaders("tools/call", "a__b"), bearer...)...)
					},
					"plain call": func() (int, string) { return w.text(http.MethodPost, "/mcp", legacyCall, bearer...) },
					"REST call": func() (int, string) {
						return w.text(http.MethodPost, "/mcp/tools/call", `{"name":"a__b"}`, bearer...)
					},
				} {
					open.Go(func() {
						if status, answer := ask(); strings.Contains(answer, `"result":{"content"`) || strings.Contains(name, "plain") && status != http.StatusUnauthorized {
							t.Errorf("%s: %d %s", name, status, answer)
						}
						if took := time.Since(began); took > time.Minute {
							t.Errorf("%s: it ended %v after the edit", name, took)
						}
					})
				}
				time.Sleep(time.Second) // all are open
				l.tokens(tt.now...)
				open.Wait()
				if status, answer := w.text(http.MethodPost, "/mcp", legacyCall, session...); status == http.StatusOK {
					t.Errorf("the session goes on: %s", answer)
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
	form := []string{"Content-Type", "application/x-www-form-urlencoded", "Origin", "http://localhost"}
	if response := w.do(http.MethodPost, "/login", "token=use", form...); response.StatusCode != 403 || len(response.Cookies()) > 0 {
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
		l := newLive(HTTPOptions{Tokens: tokens("one", "two")})
		w := serveWeb(t, newFake(), Options{}, HTTPOptions{Live: l.live, Pages: pages})
		w.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
		cookieOf := func(response *http.Response) []string {
			response.Body.Close()
			for _, c := range response.Cookies() {
				return []string{"Cookie", c.Name + "=" + c.Value}
			}
			return nil
		}
		login := func(token string) []string {
			time.Sleep(time.Minute) // the limit on tries
			return cookieOf(w.do(http.MethodPost, "/login", "token="+token, "Content-Type", "application/x-www-form-urlencoded", "Origin", "http://localhost"))
		}
		want := func(what string, status int, cookie []string) (renewed []string) {
			t.Helper()
			response := w.do(http.MethodGet, "/", "", cookie...)
			if response.StatusCode != status {
				t.Errorf("%s: %d, want %d", what, response.StatusCode, status)
			}
			return cookieOf(response)
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
		if status := out(append(slices.Clone(first), "Sec-Fetch-Site", "cross-site")...); status != 403 {
			t.Errorf("another site's page logs out: %d", status)
		}
		if status := out(append(slices.Clone(first), "Content-Type", "text/plain")...); status != 403 {
			t.Errorf("a form logs out: %d", status)
		}
		want("no logout yet", 200, first)
		if status := out(first...); status != 204 {
			t.Errorf("logout: %d", status)
		}
		stream.Wait()
		want("after the logout", 401, first)
		want("another login with the token", 200, other)

		time.Sleep(12 * time.Hour)
		want("12 hours without a request", 401, other)
		cookie, begun := login("one"), time.Now()
		for time.Since(begun) < 6*24*time.Hour {
			time.Sleep(10 * time.Hour)
			next := want("in use", 200, cookie)
			if next == nil {
				t.Fatal("the cookie is not renewed")
			}
			cookie = next
		}
		for time.Since(begun) < 7*24*time.Hour {
			time.Sleep(time.Hour)
			if next := cookieOf(w.do(http.MethodGet, "/", "", cookie...)); next != nil {
				cookie = next
			}
		}
		want("after a week", 401, cookie)

		one, two := login("one"), login("two")
		forged := slices.Clone(one)
		forged[1] += "0"
		want("forged", 401, forged)
		demoted := tokens("two")
		demoted[0].Admin = false
		l.tokens(append(tokens("three"), demoted...)...)
		want("its token was removed", 401, one)
		want("its token is no admin's", 401, two)
		time.Sleep(time.Second) // cookies count whole seconds
		l.tokens(tokens("one", "two")...)
		want("its token is back", 401, one)
		want("its token is an admin's again", 401, two)
		want("a login since then", 200, login("one"))
	})
}
