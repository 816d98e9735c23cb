package server

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// serveLogins serves pages to browsers, which follow no redirect.
func serveLogins(t *testing.T, h HTTPOptions) *web {
	w := serveWeb(t, newFake(tool("a", "b")), Options{Mode: exposure.Direct}, h)
	w.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return w
}

// logIn sends the form of the login page. Without other headers, it comes from our own page.
func (w *web) logIn(token string, header ...string) *http.Response {
	w.t.Helper()
	if header == nil {
		header = []string{"Origin", "http://localhost"}
	}
	response := w.do(http.MethodPost, "/login", "token="+token, append([]string{"Content-Type", "application/x-www-form-urlencoded"}, header...)...)
	response.Body.Close()
	return response
}

// cookieOf returns the header with the cookie that a response sets, nil for none.
func cookieOf(response *http.Response) []string {
	response.Body.Close()
	for _, c := range response.Cookies() {
		return []string{"Cookie", c.Name + "=" + c.Value}
	}
	return nil
}

// A browser gets in by a token that is typed in, and then to pages alone.
func TestLogin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pages := http.NewServeMux()
		pages.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "the page") })
		w := serveLogins(t, HTTPOptions{Tokens: tokens("one", "two"), Pages: pages})
		browser := []string{"Accept", "text/html,*/*;q=0.8"}
		form := append([]string{"Content-Type", "application/x-www-form-urlencoded", "Origin", "http://localhost"}, browser...)

		if status, answer := w.text(http.MethodGet, "/", "", browser...); status != 401 || !strings.Contains(answer, `action="/login"`) {
			t.Errorf("a stranger's browser gets %d %.200s", status, answer)
		}
		if status, answer := w.text(http.MethodGet, "/", ""); status != 401 || strings.Contains(answer, "<html") {
			t.Errorf("a stranger's program gets %d %.200s", status, answer)
		}
		if status, answer := w.text(http.MethodGet, "/", "", bearer("one")...); status != 200 || answer != "the page" {
			t.Errorf("who bears the token gets %d %s", status, answer)
		}
		if _, answer := w.text(http.MethodGet, "/", "", browser...); strings.Contains(answer, `role="alert"`) {
			t.Errorf("a token is called wrong before there was one: %s", answer)
		}
		if _, answer := w.text(http.MethodPost, "/login", "token=three", form...); !strings.Contains(answer, `role="alert">`) {
			t.Errorf("a wrong token is not called wrong: %s", answer)
		}
		time.Sleep(time.Minute)
		for _, token := range []string{"", "three", "one%20two"} {
			if response := w.logIn(token); response.StatusCode != 401 || len(response.Cookies()) > 0 {
				t.Errorf("token %q: %d, %v", token, response.StatusCode, response.Cookies())
			}
		}
		response := w.logIn("two")
		cookies := response.Cookies()
		if response.StatusCode != 303 || len(cookies) != 1 || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteStrictMode || strings.Contains(cookies[0].Value, "two") {
			t.Fatalf("%d, %v", response.StatusCode, cookies)
		}
		cookie := cookieOf(response)
		if status, answer := w.text(http.MethodGet, "/", "", cookie...); status != 200 || answer != "the page" {
			t.Errorf("the browser gets %d %s", status, answer)
		}
		for _, method := range []string{http.MethodGet, http.MethodPost} { // such as from the history
			if again := w.do(method, "/login", "token=two", append(cookie, form...)...); again.StatusCode != 303 || again.Header.Get("Location") != "/" {
				t.Errorf("who is in already is sent to %d %s", again.StatusCode, again.Header.Get("Location"))
			}
		}
		if status, _ := w.text(http.MethodPost, "/mcp", `{"id":1,"method":"ping"}`, cookie...); status != 401 {
			t.Errorf("the cookie opens /mcp: %d", status)
		}
		if status, _ := w.text(http.MethodGet, "/v1/mesh_scan", "", cookie...); status != 401 {
			t.Errorf("the cookie opens /v1/mesh_scan: %d", status)
		}
		if status, _ := w.text(http.MethodGet, "/", "", "Cookie", cookies[0].Name+"="+strings.Repeat("0", 64)); status != 401 {
			t.Errorf("a forged cookie: %d", status)
		}
		if status, _ := w.text(http.MethodGet, "/", "", append([]string{"Host", "evil.example"}, cookie...)...); status != 403 {
			t.Errorf("by another name: %d", status)
		}
	})
}

// An address may try five times a minute, with the token too, and only from our own page.
func TestLoginTries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := serveLogins(t, HTTPOptions{Tokens: tokens("one"), Pages: http.NewServeMux(), AllowedOrigins: []string{"https://tool.example"}})
		for _, foreign := range [][]string{
			{"Origin", "http://localhost:5173"}, {"Origin", "https://tool.example"}, {"Origin", ""}, // the pages of others
			{"Origin", "http://localhost", "Sec-Fetch-Site", "cross-site"}, {"Origin", "http://localhost", "Sec-Fetch-Site", "same-site"},
		} {
			for range 10 { // uses no try up
				if got := w.logIn("one", foreign...); got.StatusCode != http.StatusForbidden || len(got.Cookies()) > 0 {
					t.Fatalf("from %q: %d %v", foreign, got.StatusCode, got.Cookies())
				}
			}
		}
		for range 5 {
			expect.Equal(t, w.logIn("two").StatusCode, http.StatusUnauthorized, "a wrong token")
		}
		if got := w.logIn("one"); got.StatusCode != http.StatusTooManyRequests || got.Header.Get("Retry-After") != "12" {
			t.Errorf("the sixth try: %d %v", got.StatusCode, got.Header)
		}
		time.Sleep(12 * time.Second)
		expect.Equal(t, w.logIn("one", "Origin", "http://localhost", "Sec-Fetch-Site", "same-origin").StatusCode, http.StatusSeeOther, "after the wait")
	})
}

// Where no token is asked for, there is nothing to log in to, and pages are as open as
// all else.
func TestPagesAreOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pages := http.NewServeMux()
		open := make(chan struct{})
		pages.HandleFunc("GET /stream", func(w http.ResponseWriter, r *http.Request) {
			http.NewResponseController(w).Flush()
			<-r.Context().Done()
			close(open)
		})
		w := serveWeb(t, newFake(tool("a", "b")), Options{Mode: exposure.Direct}, HTTPOptions{Pages: pages})
		if status, _ := w.text(http.MethodPost, "/login", "token=x", "Content-Type", "application/x-www-form-urlencoded"); status != 404 {
			t.Errorf("login: %d", status)
		}
		if status, answer := w.text(http.MethodGet, "/other", ""); status != 404 || !strings.Contains(answer, "MCP is at /mcp") {
			t.Errorf("%d %s", status, answer)
		}
		if status, _ := w.text(http.MethodGet, "/stream", "", "Origin", "http://evil.example"); status != 403 {
			t.Errorf("another origin's page: %d", status)
		}
		response := w.do(http.MethodGet, "/stream", "")
		defer response.Body.Close()
		w.handler.Close(t.Context()) // ends the page's stream
		<-open
	})
}

// A page may take long to answer: only what is sent has a deadline, and a limit.
func TestPagesMayTakeLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pages := http.NewServeMux()
		pages.HandleFunc("POST /slow", func(w http.ResponseWriter, r *http.Request) {
			text, _ := io.ReadAll(r.Body)
			select {
			case <-time.After(time.Hour):
				w.Write(text)
			case <-r.Context().Done():
			}
		})
		w := serveWeb(t, newFake(tool("a", "b")), Options{Mode: exposure.Direct}, HTTPOptions{Pages: pages, MaxBody: 100})
		if status, answer := w.text(http.MethodPost, "/slow", `{"x":1}`); status != 200 || answer != `{"x":1}` {
			t.Errorf("after an hour: %d %s", status, answer)
		}
		if status, answer := w.text(http.MethodPost, "/slow", strings.Repeat("x", 101)); status != 413 || !strings.Contains(answer, "100 bytes") {
			t.Errorf("too much: %d %s", status, answer)
		}
	})
}
