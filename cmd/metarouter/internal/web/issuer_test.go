package web

import (
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/fakeissuer"
)

const publicURL = "https://tools.example.com/router"

// issuedBy returns a token of an issuer for the MCP path of the router, with other claims in place of
// the usual ones.
func issuedBy(t testing.TB, i *fakeissuer.Issuer, claims map[string]any) string {
	t.Helper()
	all := map[string]any{
		"iss": i.URL, "sub": "u", "aud": publicURL + "/mcp", "exp": time.Now().Add(time.Hour).Unix(), "iat": time.Now().Unix(),
		"scope": "mcp:call", "groups": []string{"devs"}, "client_id": "c", "jti": "1",
	}
	maps.Copy(all, claims)
	return i.Sign(t, all)
}

// configWith returns the configuration of a router that an issuer and a fixed token let in.
func configWith(p *fakeissuer.Issuer) config.Config {
	i := ruled(func(i *config.Issuer) { i.URL = p.URL })
	c := config.Config{Router: routerWith(i)}
	c.Router.HTTP.Addr, c.Router.HTTP.PublicURL, c.Router.HTTP.Tokens = "127.0.0.1:0", publicURL, tokens(fixedToken)
	return c
}

// An issuer's tokens let clients in over HTTP, as the configuration in force says. [bearer] and
// TestProof show what else is refused.
func TestIssuerOverHTTP(t *testing.T) {
	t.Setenv("METAROUTER_TOKEN", "")
	p := fakeissuer.New(t, fakeissuer.Options{})
	core, logs := observer.New(zap.DebugLevel)
	r := start(t, configWith(p), zap.New(core))
	check := func(what, path, authorization string, want int, parts ...string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+r.bound()+path, nil)
		expect.OK(t, err)
		if authorization != "" {
			request.Header.Set("Authorization", authorization)
		}
		answer, err := http.DefaultClient.Do(request)
		expect.OK(t, err)
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		challenge := answer.Header.Get("WWW-Authenticate")
		if err != nil || answer.StatusCode != want || (challenge != "") != (len(parts) > 0) || strings.Contains(challenge+string(text), "eyJ") {
			t.Errorf("%s: %s, want %d (%s) %s", what, answer.Status, want, challenge, text)
		}
		for _, part := range parts {
			expect.Contains(t, challenge, part, "%s: the challenge", what)
		}
	}
	const ping, invalid = "/mcp/ping", `error="invalid_token", error_description="`
	with := func(claims map[string]any) string { return "Bearer " + issuedBy(t, p, claims) }
	good, below := with(nil), with(map[string]any{"aud": publicURL + "/mcp/p/work"})
	metadata := `resource_metadata="` + publicURL + `/.well-known/oauth-protected-resource/mcp`
	for _, tt := range []struct {
		what, path, authorization string
		status                    int
		challenge                 []string
	}{
		{"a good one", ping, good, 200, nil},
		{"a fixed token", ping, "Bearer " + fixedToken, 200, nil},
		{"the profile by URL", "/mcp/p/work/ping", below, 200, nil},
		{"no token", ping, "", 401, []string{metadata + `"`, "mcp:call"}},
		{"no token of anyone", ping, "Bearer wrong", 401, []string{metadata + `"`, invalid}},
		{"another scheme", ping, strings.Replace(good, "Bearer", "Basic", 1), 401, []string{metadata}},
		{"no scheme", ping, strings.TrimPrefix(good, "Bearer "), 401, []string{metadata}},
		{"no token after the scheme", ping, "Bearer", 401, []string{metadata}},
		{"more after the token", ping, good + " x", 401, []string{metadata}},
		{"in the URL", ping + "?access_token=" + strings.TrimPrefix(good, "Bearer "), "", 401, []string{metadata}},
		{"for another path", "/mcp/p/work/ping", good, 401, []string{metadata + `/p/work"`, invalid}},
		{"for a profile's path", ping, below, 401, []string{invalid}},
		{"for another resource", ping, with(map[string]any{"aud": "https://other.example/mcp"}), 401, []string{invalid}},
		{"expired", ping, with(map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}), 401, []string{invalid}},
		{"of another issuer", ping, "Bearer " + issuedBy(t, fakeissuer.New(t, fakeissuer.Options{}), nil), 401, []string{invalid}},
		{"no profile", ping, with(map[string]any{"groups": []string{"sales"}}), 403, nil},
		{"no scope", ping, with(map[string]any{"scope": "openid"}), 403, []string{`error="insufficient_scope"`, `scope="openid mcp:call"`}},
		{"no user", ping, with(map[string]any{"sub": ""}), 403, nil},
	} {
		check(tt.what, tt.path, tt.authorization, tt.status, tt.challenge...)
	}

	edit := func(change func(*config.Router)) {
		c := configWith(p)
		change(&c.Router)
		r.edit(c)
	}
	edit(func(r *config.Router) { r.HTTP.Issuers[0].Profiles = nil })
	check("without rules", ping, good, 403)
	asked := p.Counts().KeyReads
	edit(func(*config.Router) {})
	check("with rules again", ping, good, 200)
	expect.Equal(t, p.Counts().KeyReads, asked, "an edit of rules forgets the keys")
	edit(func(r *config.Router) { delete(r.Profiles, "work") })
	check("without the profile", ping, good, 403)
	edit(func(r *config.Router) { r.HTTP.Issuers, r.HTTP.Tokens = []config.Issuer{{}}, nil })
	check("with a mistake in the issuer and no fixed token", ping, good, 401, "Bearer")
	check("no token, with a mistake in the issuer", ping, "", 401, "Bearer")
	edit(func(r *config.Router) { r.HTTP.Issuers = nil })
	check("without the issuer", ping, good, 401, "Bearer")
	check("the fixed token, without the issuer", ping, "Bearer "+fixedToken, 200)
	edit(func(r *config.Router) { r.HTTP.Issuers[0].KeysURL = "http://127.0.0.1:1/keys" })
	check("keys that can't be read", ping, good, 503)
	edit(func(*config.Router) {})
	check("as at first", ping, good, 200)
	for _, entry := range logs.All() {
		expect.Equal(t, strings.Contains(fmt.Sprint(entry.Message, entry.ContextMap()), "eyJ"), false, "the log has a token: %v", entry)
	}
}

// BenchmarkCall compares a call with a fixed token with one with a verified token of an issuer.
func BenchmarkCall(b *testing.B) {
	b.Setenv("METAROUTER_TOKEN", "")
	p := fakeissuer.New(b, fakeissuer.Options{})
	r := start(b, configWith(p), zap.NewNop())
	groups := strings.Fields(strings.Repeat("group ", 50) + "devs")
	for name, token := range map[string]string{
		"fixed": fixedToken, "jwt": issuedBy(b, p, nil), "jwt-50-groups": issuedBy(b, p, map[string]any{"groups": groups}),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				request, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "http://"+r.bound()+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
				expect.OK(b, err)
				request.Header.Set("Authorization", "Bearer "+token)
				request.Header.Set("Content-Type", "application/json")
				answer, err := http.DefaultClient.Do(request)
				expect.OK(b, err)
				io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
				if answer.StatusCode != http.StatusOK {
					b.Fatal(answer.Status)
				}
			}
		})
	}
}
