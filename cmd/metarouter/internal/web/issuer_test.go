package web

import (
	"crypto/ecdsa"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
)

const publicURL = "https://tools.example.com/router"

// An idp is an identity provider with one key.
type idp struct {
	*httptest.Server
	key  *ecdsa.PrivateKey
	asks atomic.Int64 // requests for its keys
}

func newIDP(t testing.TB) *idp {
	t.Helper()
	p := &idp{key: newKeyPair(t)}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var answer any
		switch r.URL.Path {
		case "/.well-known/oauth-authorization-server":
			answer = map[string]any{
				"issuer": p.URL, "jwks_uri": p.URL + "/keys", "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token",
				"response_types_supported": []string{"code"}, "code_challenge_methods_supported": []string{"S256"},
			}
		case "/keys":
			p.asks.Add(1)
			answer = jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &p.key.PublicKey, KeyID: "1", Algorithm: "ES256", Use: "sig"}}}
		default:
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(answer)
	}))
	t.Cleanup(p.Close)
	return p
}

// token returns a token for the MCP path of the router, with other claims in place of the usual
// ones.
func (p *idp) token(t testing.TB, claims map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: p.key, KeyID: "1"}}, (&jose.SignerOptions{}).WithType("at+jwt"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]any{
		"iss": p.URL, "sub": "u", "aud": publicURL + "/mcp", "exp": time.Now().Add(time.Hour).Unix(), "iat": time.Now().Unix(),
		"scope": "mcp:call", "groups": []string{"devs"}, "client_id": "c", "jti": "1",
	}
	maps.Copy(all, claims)
	text, err := jwt.Signed(signer).Claims(all).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// configWith returns the configuration of a router that an issuer and a fixed token let in.
func configWith(p *idp) config.Config {
	i := ruled(func(i *config.Issuer) { i.URL = p.URL })
	c := config.Config{Router: routerWith(i)}
	c.Router.HTTP.Addr, c.Router.HTTP.PublicURL, c.Router.HTTP.Tokens = "127.0.0.1:0", publicURL, tokens(fixedToken)
	return c
}

// An issuer's tokens let clients in over HTTP, as the configuration in force says.
func TestIssuerOverHTTP(t *testing.T) {
	t.Setenv("METAROUTER_TOKEN", "")
	p := newIDP(t)
	c := configWith(p)
	r := start(t, c, zap.NewNop())
	send := func(path, token string) (status int, challenge string) {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+r.bound()+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		io.Copy(io.Discard, answer.Body)
		return answer.StatusCode, answer.Header.Get("WWW-Authenticate")
	}
	good := p.token(t, nil)
	check := func(what, path, token string, want int, parts ...string) {
		t.Helper()
		status, challenge := send(path, token)
		if status != want {
			t.Errorf("%s: %d, want %d (%s)", what, status, want, challenge)
		}
		for _, part := range parts {
			if !strings.Contains(challenge, part) {
				t.Errorf("%s: the challenge is %q, without %q", what, challenge, part)
			}
		}
	}
	metadata := `resource_metadata="` + publicURL + `/.well-known/oauth-protected-resource/mcp"`
	check("no token", "/mcp/ping", "", 401, metadata, "mcp:call")
	check("a good one", "/mcp/ping", good, 200)
	check("a fixed token", "/mcp/ping", fixedToken, 200)
	check("no token of anyone", "/mcp/ping", "wrong", 401, metadata, "invalid_token")
	check("for another path", "/mcp/p/work/ping", good, 401, "invalid_token")
	check("for another resource", "/mcp/ping", p.token(t, map[string]any{"aud": "https://other.example/mcp"}), 401, "invalid_token")
	check("expired", "/mcp/ping", p.token(t, map[string]any{"exp": time.Now().Add(-time.Hour).Unix()}), 401, "invalid_token")
	check("of another issuer", "/mcp/ping", newIDP(t).token(t, nil), 401, "invalid_token")
	check("no profile", "/mcp/ping", p.token(t, map[string]any{"groups": []string{"sales"}}), 403)
	check("no scope", "/mcp/ping", p.token(t, map[string]any{"scope": "openid"}), 403, `error="insufficient_scope"`, `scope="openid mcp:call"`)
	check("no user", "/mcp/ping", p.token(t, map[string]any{"sub": ""}), 403)
	check("the profile by URL", "/mcp/p/work/ping", p.token(t, map[string]any{"aud": publicURL + "/mcp/p/work"}), 200)

	edited := configWith(p)
	edited.Router.HTTP.Issuers[0].Profiles = nil
	r.edit(edited)
	check("without rules", "/mcp/ping", good, 403)
	asked := p.asks.Load()
	r.edit(c)
	check("with rules again", "/mcp/ping", good, 200)
	if p.asks.Load() != asked {
		t.Error("an edit of rules forgets the keys")
	}
	edited = configWith(p)
	delete(edited.Router.Profiles, "work")
	r.edit(edited)
	check("without the profile", "/mcp/ping", good, 403)
	edited = configWith(p)
	edited.Router.HTTP.Issuers, edited.Router.HTTP.Tokens = []config.Issuer{{}}, nil
	r.edit(edited)
	check("with a mistake in the issuer and no fixed token", "/mcp/ping", good, 401)
	check("no token, with a mistake in the issuer", "/mcp/ping", "", 401)
	edited.Router.HTTP.Issuers = nil
	edited.Router.HTTP.Tokens = tokens(fixedToken)
	r.edit(edited)
	check("without the issuer", "/mcp/ping", good, 401)
	check("the fixed token, without the issuer", "/mcp/ping", fixedToken, 200)
	r.edit(c)
	check("as at first", "/mcp/ping", good, 200)
	down := configWith(p)
	down.Router.HTTP.Issuers[0].KeysURL = "http://127.0.0.1:1/keys"
	r.edit(down)
	check("keys that can't be read", "/mcp/ping", good, 503)
}

// BenchmarkCall compares a call with a fixed token with one with a verified token of an issuer.
func BenchmarkCall(b *testing.B) {
	b.Setenv("METAROUTER_TOKEN", "")
	p := newIDP(b)
	r := start(b, configWith(p), zap.NewNop())
	groups := make([]string, 50)
	for i := range groups {
		groups[i] = fmt.Sprintf("group-%d", i)
	}
	for _, tt := range []struct{ name, token string }{
		{"fixed", fixedToken}, {"jwt", p.token(b, nil)}, {"jwt-50-groups", p.token(b, map[string]any{"groups": append(groups, "devs")})},
	} {
		b.Run(tt.name, func(b *testing.B) {
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				request, err := http.NewRequestWithContext(b.Context(), http.MethodPost, "http://"+r.bound()+"/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`))
				if err != nil {
					b.Fatal(err)
				}
				request.Header.Set("Authorization", "Bearer "+tt.token)
				request.Header.Set("Content-Type", "application/json")
				answer, err := http.DefaultClient.Do(request)
				if err != nil {
					b.Fatal(err)
				}
				io.Copy(io.Discard, answer.Body)
				answer.Body.Close()
				if answer.StatusCode != http.StatusOK {
					b.Fatal(answer.Status)
				}
				took = append(took, time.Since(began))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
		})
	}
}

// BenchmarkToken is what the authenticator does for a token that was verified before.
func BenchmarkToken(b *testing.B) {
	p := newIDP(b)
	l, err := New(config.HTTP{Addr: "127.0.0.1:0"}, Flags{}, nil, zap.NewNop())
	if err != nil {
		b.Fatal(err)
	}
	now := l.admissionOf(configWith(p))
	a := newAuthenticator(func() (*admission, <-chan struct{}) { return now, nil }, l.openVerifier, zap.NewNop())
	defer a.Close()
	token := p.token(b, nil)
	for b.Loop() {
		if _, err := a.Token(b.Context(), token, publicURL+"/mcp"); err != nil {
			b.Fatal(err)
		}
	}
}
