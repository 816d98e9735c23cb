package doctor

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// Each issuer is asked for its metadata and keys, and the report has the fix.
func TestAskIssuers(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	expect.OK(t, err)
	keys := jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: &key.PublicKey, KeyID: "1"}}}
	issuer := func(keys any, change func(map[string]any)) *httptest.Server {
		s := httptest.NewUnstartedServer(nil)
		s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			switch r.URL.Path {
			case "/.well-known/oauth-authorization-server":
				m := map[string]any{"issuer": s.URL, "jwks_uri": s.URL + "/keys", "authorization_endpoint": s.URL + "/a", "token_endpoint": s.URL + "/t"}
				if change != nil {
					change(m)
				}
				json.NewEncoder(w).Encode(m)
			case "/keys":
				json.NewEncoder(w).Encode(keys)
			case "/introspect":
				if id, secret, _ := r.BasicAuth(); id != "c" || secret != "s" {
					w.WriteHeader(http.StatusUnauthorized)
				}
				json.NewEncoder(w).Encode(map[string]any{"active": false})
			default:
				http.NotFound(w, r)
			}
		})
		s.Start()
		t.Cleanup(s.Close)
		return s
	}
	asked := issuer(keys, func(m map[string]any) { m["introspection_endpoint"] = m["issuer"].(string) + "/introspect" }).URL
	gone := issuer(keys, nil)
	gone.Close()
	for _, tt := range []struct {
		what     string
		issuer   config.Issuer
		severity Severity
		want     string
	}{
		{"all is well", config.Issuer{URL: issuer(keys, nil).URL}, Note, "answers; it has 1 key that can verify tokens"},
		{"no keys", config.Issuer{URL: issuer(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{}}, nil).URL}, Broken, "has no key that can verify tokens"},
		{"no key set", config.Issuer{URL: issuer("x", nil).URL}, Broken, "no JSON Web Key Set"},
		{"down", config.Issuer{URL: gone.URL}, Broken, "can't be reached"},
		{"another name", config.Issuer{URL: issuer(keys, func(m map[string]any) { m["issuer"] = "https://other.example" }).URL}, Broken, "describes itself as"},
		{"no introspection", config.Issuer{URL: issuer(keys, nil).URL, ClientID: "c", ClientSecret: "s", Introspect: true}, Broken, "introspection_endpoint"},
		{"introspection", config.Issuer{URL: asked, ClientID: "c", ClientSecret: "s", Introspect: true}, Note, "answers"},
		{"wrong secret", config.Issuer{URL: asked, ClientID: "c", ClientSecret: "hunter2", Introspect: true}, Broken, "refuses the router's clientId and clientSecret (status 401)"},
	} {
		x := new(findings)
		checkIssuers(x, Case{Issuers: AskIssuers(t.Context(), config.HTTP{Issuers: []config.Issuer{{}, tt.issuer}})})
		if len(x.all) != 1 || x.all[0].Severity != tt.severity || !strings.Contains(x.all[0].Problem, tt.want) || !strings.Contains(x.all[0].Problem, tt.issuer.URL) || (x.all[0].Fix == "") != (tt.severity == Note) || strings.Contains(tt.what, "secret") && !strings.Contains(x.all[0].Fix, "clientSecret") {
			t.Errorf("%s: %+v", tt.what, x.all)
		}
	}
	expect.List(t, AskIssuers(t.Context(), config.HTTP{}), nil, "without issuers")
}
