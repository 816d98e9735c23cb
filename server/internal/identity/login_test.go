package identity

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// No login by a token lets a request in under rules without the token.
func TestLoginWithoutItsToken(t *testing.T) {
	one, demoted := clientauth.Principal{Name: "one", Hash: "1", Admin: true}, clientauth.Principal{Name: "one", Hash: "1"}
	other := clientauth.Principal{Name: "other", Hash: "2", Admin: true}
	who := New(t.Context(), Options{Port: "1"})
	for name, tt := range map[string]struct {
		now []clientauth.Principal
		in  bool
	}{
		"another token is added": {[]clientauth.Principal{other, one}, true},
		"removed":                {[]clientauth.Principal{other}, false},
		"no admin's":             {[]clientauth.Principal{demoted}, false},
		"no tokens at all":       {nil, false},
	} {
		before := NewRules([]clientauth.Principal{one}, nil, nil, "", nil)
		s := who.login.sessions.begin(before.grants[one], "", nil)
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.AddCookie(&http.Cookie{Name: cookieName("1", before), Value: s.id})
		now := NewRules(tt.now, nil, nil, "", before)
		who.Revoke(before, now, func(func(conversation.Identity) bool) {})
		if in := who.login.bySession(r, now); (in == s) != tt.in {
			t.Errorf("%s: let in %v, want %v", name, in == s, tt.in)
		}
	}
}

// Routers on several ports of a host, or below several paths of a proxy, do not take each other's cookies away.
func TestLoginCookiesDiffer(t *testing.T) {
	names := make(map[string]bool)
	for _, tt := range []struct{ port, public string }{{"1", ""}, {"2", ""}, {"3", ""}, {"1", "https://x.example/a"}, {"1", "https://x.example/b"}} {
		names[cookieName(tt.port, NewRules(nil, nil, nil, tt.public, nil))] = true
	}
	expect.Equal(t, len(names), 5, "the cookies are called %v", names)
}

// Over TLS, perhaps of a proxy, browsers never send the cookie without TLS.
func TestCookieIsSecure(t *testing.T) {
	for _, tt := range []struct {
		target, public string
		header, value  string
		sso, secure    bool
	}{
		{"https://localhost/", "", "", "", false, true},
		{"http://localhost/", "", "", "", false, false},
		{"http://tools.example/", "https://tools.example/a", "", "", false, true}, // a proxy with TLS
		{"http://tools.example/", "https://Tools.example:443/a", "", "", false, true},
		{"http://tools.example:443/", "https://tools.example/a", "", "", false, true},
		{"http://tools.example/", "https://tools.example:8443/a", "", "", false, false},
		{"http://localhost/", "https://tools.example/a", "", "", false, false},                           // past it
		{"http://localhost/", "https://tools.example/a", "Origin", "http://localhost", false, false},     // past it
		{"http://localhost/", "https://tools.example/a", "Origin", "https://tools.example", false, true}, // it changes the Host
		{"http://localhost/", "https://tools.example/a", "X-Forwarded-Proto", "https", false, true},      // it changes the Host
		{"http://localhost/", "https://tools.example/a", "X-Forwarded-Proto", "http", false, false},      // past it
		{"http://localhost/", "http://localhost", "X-Forwarded-Proto", "https", false, false},
		{"http://localhost/", "https://tools.example/a", "", "", true, true}, // the issuer has redirected to the public URL
		{"http://localhost/", "http://localhost", "", "", true, false},
	} {
		w, s := httptest.NewRecorder(), &browserSession{}
		if tt.sso {
			s.tokens = new(signIn)
		}
		l := New(t.Context(), Options{Port: "1"}).login
		r := httptest.NewRequest(http.MethodGet, tt.target, nil)
		if tt.header != "" {
			r.Header.Set(tt.header, tt.value)
		}
		l.letIn(w, r, &Sender{Rules: NewRules(nil, nil, nil, tt.public, nil)}, s)
		c := w.Result().Cookies()[0]
		if c.Secure != tt.secure || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.MaxAge != 60*60 {
			t.Errorf("%+v: %+v", tt, c)
		}
	}
}
