package web

import (
	"reflect"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/server"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// Other machines need a token that can't be guessed. This machine's programs are warned.
func TestTokenLength(t *testing.T) {
	const long = "0123456789abcdef"
	for _, tt := range []struct {
		address  string
		tokens   []string
		err, log string
	}{
		{"0.0.0.0:0", nil, "must send a token", ""},
		{"0.0.0.0:0", []string{long, long[1:]}, "at least 16 characters; make one with 'metarouter token new'", ""},
		{"0.0.0.0:0", []string{long}, "", "not encrypted"},
		{"0.0.0.0:0", []string{long, ""}, "", "not encrypted"}, // the configuration could not read one
		{"127.0.0.1:0", []string{long[1:]}, "", "metarouter token new"},
		{"127.0.0.1:0", []string{long}, "", ""},
		{"127.0.0.1:0", nil, "", ""},
	} {
		t.Setenv("METAROUTER_TOKEN", "")
		core, logs := observer.New(zap.WarnLevel)
		_, err := New(config.HTTP{Addr: tt.address, Tokens: tokens(tt.tokens...)}, Flags{}, nil, zap.New(core))
		if (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s with %q: %v", tt.address, tt.tokens, err)
		}
		all := ""
		for _, entry := range logs.All() {
			all += entry.Message
		}
		if (all != "") != (tt.log != "") || !strings.Contains(all, tt.log) {
			t.Errorf("%s with %q: logged %q", tt.address, tt.tokens, all)
		}
	}
}

// A port in use is named, with what to do.
func TestPortInUse(t *testing.T) {
	t.Setenv("METAROUTER_TOKEN", "")
	at := listening(t, config.HTTP{Addr: "127.0.0.1:0"}, zap.NewNop()).bound()
	again, err := New(config.HTTP{Addr: at}, Flags{}, nil, zap.NewNop())
	expect.OK(t, err)
	if err := again.Listen(t.Context()); err == nil || !strings.Contains(err.Error(), at) || !strings.HasSuffix(err.Error(), "; write another port after --http") {
		t.Errorf("got %v", err)
	}
}

// listening returns a listener, which ends with the test.
func listening(t *testing.T, h config.HTTP, log *zap.Logger) *Listener {
	t.Helper()
	l, err := New(h, Flags{}, nil, log)
	expect.OK(t, err)
	expect.OK(t, l.Listen(t.Context()))
	t.Cleanup(func() { l.Close() })
	return l
}

// A public URL for other machines needs a token as well, also after an edit.
func TestPublicURLWithoutToken(t *testing.T) {
	t.Setenv("METAROUTER_TOKEN", "")
	for _, tt := range []struct {
		url     string
		tokens  []config.Token
		issuers []config.Issuer
		refused bool
	}{
		{"https://tools.example.com", nil, nil, true},
		{"https://tools.example.com", tokens("0123456789abcdef"), nil, false},
		{"https://tools.example.com", nil, []config.Issuer{{}}, false},
		{"http://localhost:8787", nil, nil, false},
		{"http://[::1]:8787/x", nil, nil, false},
		{"", nil, nil, false},
	} {
		c := config.HTTP{Addr: "127.0.0.1:0", PublicURL: tt.url, Tokens: tt.tokens, Issuers: tt.issuers}
		if _, err := New(c, Flags{}, nil, zap.NewNop()); (err != nil) != tt.refused || err != nil && !strings.Contains(err.Error(), "metarouter.http.publicUrl, "+tt.url) {
			t.Errorf("%s: %v", tt.url, err)
		}
		l := listening(t, config.HTTP{Addr: "127.0.0.1:0"}, zap.NewNop())
		public := len(tt.tokens)+len(tt.issuers) == 0 && !tt.refused
		if all := l.principals(config.Router{HTTP: c}); (len(all) == 0) != public || tt.refused && (len(all) != 1 || all[0].Hash != "") {
			t.Errorf("%s: after an edit %+v", tt.url, all)
		}
	}
}

// The log names the address by which clients elsewhere reach the router.
func TestLogOfPublicURL(t *testing.T) {
	for url, want := range map[string]any{"": nil, "https://tools.example.com/x": "https://tools.example.com/x/mcp"} {
		core, logs := observer.New(zap.InfoLevel)
		listening(t, config.HTTP{Addr: "127.0.0.1:0", PublicURL: url, Tokens: tokens("0123456789abcdef")}, zap.New(core)).announce()
		if said := logs.All(); len(said) != 1 || said[0].ContextMap()["public url"] != want {
			t.Errorf("%q: %v", url, said)
		}
	}
}

// tokens returns plain tokens; "" is one that the configuration could not read.
func tokens(texts ...string) []config.Token {
	var all []config.Token
	for _, text := range texts {
		if text == "" {
			all = append(all, config.Token{})
			continue
		}
		all = append(all, plainToken(text))
	}
	return all
}

// An edit of the tokens holds at once. One that can't be used lets no client in, and never
// opens the router.
func TestEditOfTokens(t *testing.T) {
	const first, second = "0123456789abcdef", "fedcba9876543210"
	t.Setenv("METAROUTER_TOKEN", "")
	object := func(text string, change func(*config.Token)) []config.Token {
		token := plainToken(text)
		token.Plain, token.Role = false, "use"
		change(&token)
		return []config.Token{token}
	}
	hash := func(text string) string { return plainToken(text).Hash }
	for _, tt := range []struct {
		what, addr string
		tokens     []config.Token
		want       []clientauth.Principal
	}{
		{"none", "0.0.0.0:0", nil, []clientauth.Principal{{}}},
		{"none, on loopback", "127.0.0.1:0", nil, []clientauth.Principal{}},
		{"a short one", "0.0.0.0:0", tokens("short"), []clientauth.Principal{{}}},
		{"a short one, on loopback", "127.0.0.1:0", tokens("short"), []clientauth.Principal{{Hash: hash("short"), Name: hash("short")[:8], Admin: true}}},
		{"one of two is short", "0.0.0.0:0", tokens(second, "short"), []clientauth.Principal{{Hash: hash(second), Name: hash(second)[:8], Admin: true}, {}}},
		{"another one", "0.0.0.0:0", tokens(second), []clientauth.Principal{{Hash: hash(second), Name: hash(second)[:8], Admin: true}}},
		{"a use token", "0.0.0.0:0", object(second, func(t *config.Token) { t.Name, t.Profile = "ci", "work" }), []clientauth.Principal{{Hash: hash(second), Name: "ci", Profile: "work"}}},
		{"no such profile", "127.0.0.1:0", object(second, func(t *config.Token) { t.Name, t.Profile = "ci", "gone" }), []clientauth.Principal{{}}},
		{"an object wins", "127.0.0.1:0", append(tokens(first), object(first, func(t *config.Token) { t.Name = "ci" })...), []clientauth.Principal{{Hash: hash(first), Name: "ci"}}},
	} {
		var c config.Config
		c.Router.HTTP = config.HTTP{Addr: tt.addr, Tokens: tokens(first)}
		c.Router.Profiles = map[string]config.Profile{"work": {}}
		l := listening(t, c.Router.HTTP, zap.NewNop())
		c.Router.HTTP.Tokens = tt.tokens
		expect.Deep(t, l.optionsOf(c).Tokens, tt.want, "%s", tt.what)
	}
}

// A token that stands in the environment too has the role that its object says.
func TestObjectWinsOverEnvironment(t *testing.T) {
	const text = "0123456789abcdef"
	t.Setenv("METAROUTER_TOKEN", text)
	token := plainToken(text)
	token.Plain, token.Role = false, "use"
	if got := allTokens(config.HTTP{Tokens: []config.Token{token}}, plainToken(text)); len(got) != 1 || got[0].Role != "use" {
		t.Errorf("%+v", got)
	}
}

// Issuers keep the router from being public, also with a mistake in them and without fixed tokens.
// An edit of one makes it another issuer.
func TestIssuersInOptions(t *testing.T) {
	t.Setenv("METAROUTER_TOKEN", "")
	one := config.Issuer{URL: "https://id.example.com", Profiles: []config.ProfileRule{{Claim: config.Claim{Name: "*"}, Profile: "work"}}}
	l := listening(t, config.HTTP{Addr: "127.0.0.1:0"}, zap.NewNop())
	options := func(r config.Router) *server.HTTPOptions {
		r.HTTP.Addr = "127.0.0.1:0"
		return l.optionsOf(config.Config{Router: r})
	}
	for what, tt := range map[string]struct {
		router  config.Router
		public  bool
		issuers int
	}{
		"none":         {config.Router{}, true, 0},
		"publicUrl":    {routerWith(), false, 0}, // it brings clients of other machines
		"one":          {routerWith(one), false, 1},
		"a mistake":    {routerWith(config.Issuer{}), false, 0},
		"both":         {routerWith(config.Issuer{}, one), false, 1},
		"no publicUrl": {config.Router{HTTP: config.HTTP{Issuers: []config.Issuer{one}}}, false, 0},
	} {
		o := options(tt.router)
		if (len(o.Tokens) == 0) != tt.public || len(o.Issuers) != tt.issuers || o.PublicURL != tt.router.HTTP.PublicURL {
			t.Errorf("%s: %d principals, %d issuers, at %s", what, len(o.Tokens), len(o.Issuers), o.PublicURL)
		}
	}
	base := options(routerWith(one)).Issuers
	expect.Equal(t, reflect.DeepEqual(options(routerWith(one)).Issuers, base), true, "the same issuer")
	for what, change := range map[string]func(*config.Issuer, *config.Router){
		"audience": func(i *config.Issuer, _ *config.Router) { i.Audience = "x" },
		"user":     func(i *config.Issuer, _ *config.Router) { i.User = "email" },
		"profiles": func(i *config.Issuer, _ *config.Router) { i.Profiles = nil },
		"admins":   func(i *config.Issuer, _ *config.Router) { i.Admins = []config.Claim{{Name: "*"}} },
		"scopes":   func(i *config.Issuer, _ *config.Router) { i.Scopes = map[string][]string{} },
		"keys":     func(i *config.Issuer, _ *config.Router) { i.KeysURL = "https://x" },
		"client":   func(i *config.Issuer, _ *config.Router) { i.ClientID = "x" },
		"secret":   func(i *config.Issuer, _ *config.Router) { i.ClientSecret = "x" },
		"ask":      func(i *config.Issuer, _ *config.Router) { i.Introspect = true },
		"exists":   func(_ *config.Issuer, r *config.Router) { delete(r.Profiles, "work") },
	} {
		edited := one
		r := routerWith()
		change(&edited, &r)
		r.HTTP.Issuers = []config.Issuer{edited}
		if reflect.DeepEqual(options(r).Issuers, base) {
			t.Errorf("%s: the issuer stays", what)
		}
	}
	r := routerWith(one)
	delete(r.Profiles, "ops") // which no rule names
	expect.Equal(t, reflect.DeepEqual(options(r).Issuers, base), true, "an issuer, after the edit of another profile")
}
