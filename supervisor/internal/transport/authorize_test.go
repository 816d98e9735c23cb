package transport

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/login"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// Fake tokens are the number of refreshes so far, as text.
type fakeTokens struct {
	last    int64 // refreshes that are possible
	current atomic.Int64
	refused atomic.Int64
	none    error // when no refresh is possible
	mu      sync.Mutex
	saw     []string // WWW-Authenticate of the refusals
}

func (f *fakeTokens) Token(context.Context) (string, error) {
	if n := f.current.Load(); n > 0 {
		return fmt.Sprint("token", n), nil
	}
	return "", nil
}

func (f *fakeTokens) Refused(_ context.Context, token string, resp *http.Response) error {
	f.refused.Add(1)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.saw = append(f.saw, resp.Header.Get("WWW-Authenticate"))
	if now, _ := f.Token(context.Background()); now != token {
		return nil // another request has refreshed
	}
	if f.current.Load() >= f.last {
		return f.none
	}
	f.current.Add(1)
	return nil
}

// protected serves requests with the token that it wants.
type protected struct {
	wants    atomic.Pointer[string] // "" refuses all
	status   int
	requests atomic.Int32
}

func (p *protected) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.requests.Add(1)
	if want := *p.wants.Load(); want == "" || r.Header.Get("Authorization") != "Bearer "+want {
		w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope"`)
		w.WriteHeader(p.status)
	}
}

func guarded(t *testing.T, status int, wants string, a Access) (*protected, *Site) {
	t.Helper()
	server := &protected{status: status}
	server.wants.Store(&wants)
	h := httptest.NewServer(server)
	t.Cleanup(h.Close)
	s, err := NewSite(h.URL, a, "1")
	expect.OK(t, err)
	t.Cleanup(s.Close)
	return server, s
}

var neverLoggedIn = &login.NeededError{Server: "r", Why: status.NeverLoggedIn, Issuer: "https://issuer.example"}

// Requests at the same time get the token that one of them has brought about, and each is
// sent twice at most.
func TestTokens(t *testing.T) {
	for _, code := range []int{401, 403} {
		for _, first := range []int64{0, 1} { // without a token at first, and with an old one
			tokens := &fakeTokens{last: first + 1, none: neverLoggedIn}
			tokens.current.Store(first)
			server, s := guarded(t, code, fmt.Sprint("token", first+1), Access{Tokens: tokens, Headers: map[string]string{"X-Other": "1"}})
			var calls sync.WaitGroup
			for range 10 {
				calls.Go(func() {
					if got, err := post(t, s, "a"); got != 200 {
						t.Errorf("%d: %d, %v", code, got, err)
					}
				})
			}
			calls.Wait()
			if n := server.requests.Load(); n > 20 || tokens.current.Load() != first+1 {
				t.Errorf("%d: %d requests, %d refreshes", code, n, tokens.current.Load()-first)
			}
			expect.Equal(t, tokens.saw[0], `Bearer error="insufficient_scope"`, "the challenge is lost: %q", tokens.saw)
		}
	}
}

// A request is sent once more at most, and its error says what helps.
func TestTokenRefused(t *testing.T) {
	for name, tc := range map[string]struct {
		last     int64
		code     int
		none     error
		requests int32
		want     string
		login    bool
		auth     bool // the error is a NeedsAuthError
	}{
		"no login yet": {0, 401, neverLoggedIn, 1, "needs a login: nobody has logged in", true, true},
		"after one":    {1, 401, &login.NeededError{Why: status.TokenRejected}, 2, "needs a login: it refuses a token", true, true},
		"again":        {9, 401, neverLoggedIn, 2, "refused two tokens", false, false},
		"no OAuth":     {0, 401, fmt.Errorf("x: %w", login.ErrNoOAuth), 1, `needs a token; put "Authorization": "Bearer ${TOKEN}" into the entry's headers`, false, true},
		"issuer fails": {0, 401, errors.New("invalid_client"), 1, "needs a token, and none could be got: invalid_client;", false, true},
		"forbidden":    {0, 403, errors.New("it has its reasons"), 1, "the server refuses the request (HTTP 403): it has its reasons", false, true},
	} {
		server, s := guarded(t, tc.code, "", Access{Tokens: &fakeTokens{last: tc.last, none: tc.none}})
		_, err := post(t, s, "a")
		if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "OAuth is not") || strings.Contains(err.Error(), "token: ") { // masks hide what follows
			t.Errorf("%s: %v", name, err)
		}
		if errors.As(err, new(*login.NeededError)) != tc.login || errors.As(err, new(*NeedsAuthError)) != tc.auth {
			t.Errorf("%s: %#v", name, err)
		}
		expect.Equal(t, errors.Is(err, session.ErrForbidden), tc.code == 403, "%s: %v; it would be sent again", name, err)
		if !tc.auth && !errors.Is(err, session.ErrNotSent) {
			t.Errorf("%s: %v may have had an effect", name, err)
		}
		expect.Equal(t, server.requests.Load(), tc.requests, "%s: sent … times", name)
	}
}

// The entry's own header wins: no token is asked for or sent.
func TestOwnHeaderWins(t *testing.T) {
	tokens := &fakeTokens{last: 5}
	tokens.current.Store(1)
	_, s := guarded(t, 401, "token1", Access{Tokens: tokens, Headers: map[string]string{"authorization": "Basic mine"}})
	_, err := post(t, s, "a")
	if e, ok := errors.AsType[*NeedsAuthError](err); !ok || e.Login != nil || !e.HadToken || tokens.refused.Load() != 0 || strings.Contains(e.Error(), "token: ") {
		t.Errorf("%v, asked %d times", err, tokens.refused.Load())
	}
	// A header that is renewed wins too.
	_, s = guarded(t, 401, "token1", Access{Tokens: tokens, Headers: nil, Renew: func(context.Context) (map[string]string, error) {
		return map[string]string{"Authorization": "Basic mine"}, nil
	}})
	tokens.current.Store(0)
	if _, err := post(t, s, "a"); err == nil || tokens.refused.Load() != 0 {
		t.Errorf("%v, asked %d times", err, tokens.refused.Load())
	}
}

// A token that can't be got is no reason to send the request without it.
func TestTokenFails(t *testing.T) {
	server, s := guarded(t, 401, "", Access{Tokens: failing{neverLoggedIn}})
	if _, err := post(t, s, "a"); !errors.As(err, new(*NeedsAuthError)) || !errors.As(err, new(*login.NeededError)) {
		t.Error(err)
	}
	_, other := guarded(t, 401, "", Access{Tokens: failing{errors.New("disk full")}})
	if _, err := post(t, other, "a"); !errors.Is(err, session.ErrNotSent) || errors.As(err, new(*NeedsAuthError)) {
		t.Error(err)
	}
	expect.Equal(t, server.requests.Load(), 0, "requests")
}

type failing struct{ err error }

func (f failing) Token(context.Context) (string, error)                 { return "", f.err }
func (f failing) Refused(context.Context, string, *http.Response) error { return f.err }

// The token goes to the server's own origin only, wherever it redirects.
func TestTokenStaysHome(t *testing.T) {
	thief := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { t.Errorf("the thief got %q", r.Header) }))
	defer thief.Close()
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/away":
			http.Redirect(w, r, thief.URL, http.StatusTemporaryRedirect)
		case r.URL.Path == "/host": // the same address, by another name
			http.Redirect(w, r, strings.Replace("http://"+r.Host, "127.0.0.1", "localhost", 1), http.StatusTemporaryRedirect)
		case r.URL.Path == "/here":
			http.Redirect(w, r, "/here/", http.StatusTemporaryRedirect)
		case r.Header.Get("Authorization") != "Bearer token1":
			t.Errorf("%s got %q", r.URL, r.Header)
		}
	}))
	defer h.Close()
	for path, ok := range map[string]bool{"/away": false, "/host": false, "/here": true, "/here/": true} {
		tokens := &fakeTokens{}
		tokens.current.Store(1)
		s, err := NewSite(h.URL+path, Access{Tokens: tokens}, "1")
		expect.OK(t, err)
		if _, err := post(t, s, "a"); (err == nil) != ok || !ok && !errors.As(err, new(*RedirectError)) {
			t.Errorf("%s: %v", path, err)
		}
		s.Close()
	}
}

// A server of revision 2024-11-05 can't have the token sent elsewhere.
func TestEndpointStaysHome(t *testing.T) {
	for _, endpoint := range []string{"http://localhost:1/m", "//evil.example/m", "https://127.0.0.1/m"} {
		h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", eventStream)
			fmt.Fprintf(w, "event: endpoint\ndata: %s\n\n", endpoint)
		}))
		s, err := NewSite(h.URL, Access{Tokens: &fakeTokens{}}, "1")
		expect.OK(t, err)
		_, err = OpenSSE(t.Context(), s, nil)
		expect.Error(t, err, "another place", "%s", endpoint)
		s.Close()
		h.Close()
	}
}
