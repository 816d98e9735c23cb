//go:build linux

package e2e

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/mcp-metarouter/metarouter/test/external"
)

// Tokens that the router must refuse, next to some that it must take.
func TestOAuthRefusals(t *testing.T) {
	t.Parallel()
	external.Node22(t)
	m := newTeam(t, teamOptions{})
	stranger, thief := newKey(t), newKey(t)
	thief.KeyID = m.key.KeyID
	in := func(d time.Duration) int64 { return time.Now().Add(d).Unix() }
	valid := m.token("ann")
	body := valid[:strings.LastIndex(valid, ".")]
	for _, test := range []struct {
		name, token string
		path        string
		status      int
	}{
		{"valid", valid, "", 200},
		{"several audiences", m.token("ann", "aud", []string{"other", m.url}), "", 200},
		{"the audience with a slash", m.token("ann", "aud", m.url+"/"), "", 200},
		{"valid soon, within the skew of clocks", m.token("ann", "nbf", in(20*time.Second)), "", 200},
		{"typ JWT", forge(t, m.key, "JWT", m.claims("ann")), "", 200},
		{"typ application/at+jwt", forge(t, m.key, "application/at+jwt", m.claims("ann")), "", 200},
		{"of a profile at its path", m.token("ann", "aud", m.url+"/p/workbench"), "/p/workbench", 200},

		{"no token", "", "", 401},
		{"no JWT", "abc", "", 401},
		{"wrong audience", m.token("ann", "aud", "https://other.example.com/mcp"), "", 401},
		{"no audience", m.token("ann", "aud", nil), "", 401},
		{"the issuer's client as the audience", m.token("ann", "aud", "test"), "", 401},
		{"the public URL as the audience", m.token("ann", "aud", m.origin), "", 401},
		{"another case in the audience", m.token("ann", "aud", strings.ToUpper(m.url)), "", 401},
		{"of another path", m.token("ann", "aud", m.url+"/p/workbench"), "", 401},
		{"of another path, below a profile", valid, "/p/workbench", 401},
		{"of another profile", m.token("ann", "aud", m.url+"/p/opsroom"), "/p/workbench", 401},
		{"algorithm none", unsigned(t, m.claims("ann"), "none"), "", 401},
		{"algorithm None", unsigned(t, m.claims("ann"), "None"), "", 401},
		{"without a signature", body + ".", "", 401},
		{"with another signature", body + "." + base64.RawURLEncoding.EncodeToString(make([]byte, 256)), "", 401},
		{"HS256 with the public key", hmacOf(t, m.key, m.claims("ann"), "pem"), "", 401},
		{"HS256 with the public key as DER", hmacOf(t, m.key, m.claims("ann"), "der"), "", 401},
		{"HS256 with the public JWK", hmacOf(t, m.key, m.claims("ann"), "jwk"), "", 401},
		{"a key of a stranger", forge(t, stranger, "at+jwt", m.claims("ann")), "", 401},
		{"a key of a stranger under the issuer's ID", forge(t, thief, "at+jwt", m.claims("ann")), "", 401},
		{"a key of a stranger that it brings along", embedded(t, stranger, m.claims("ann")), "", 401},
		{"expired", m.token("ann", "exp", in(-2*time.Minute)), "", 401},
		{"without an end", m.token("ann", "exp", nil), "", 401},
		{"not yet valid", m.token("ann", "nbf", in(5*time.Minute)), "", 401},
		{"another issuer", m.token("ann", "iss", "https://id.example.com"), "", 401},
		{"the issuer with a slash", m.token("ann", "iss", m.issuer.URL+"/"), "", 401},
		{"without an issuer", m.token("ann", "iss", nil), "", 401},
		{"an ID token", forge(t, m.key, "id_token+jwt", m.claims("ann")), "", 401},
		{"a logout token", forge(t, m.key, "logout+jwt", m.claims("ann")), "", 401},
		{"an unknown critical header", critical(t, m.key, m.claims("ann")), "", 401},
		{"deeply nested", m.token("ann", "x", json.RawMessage(strings.Repeat("[", 9000)+strings.Repeat("]", 9000))), "", 401},
		{"long", m.token("ann", "x", strings.Repeat("x", 20<<10)), "", 401},
		{"huge", m.token("ann", "x", strings.Repeat("x", 2<<20)), "", 431},
		{"many parts", strings.Repeat("e30.", 5000), "", 401},
		{"encrypted", "e30.e30.e30.e30.e30", "", 401},

		{"without scopes", m.token("ann", "scope", nil), "", 403},
		{"scopes of others", m.token("ann", "scope", "openid mcp:root"), "", 403},
		{"without a user", m.token("ann", "sub", nil), "", forbidden},
		{"an empty user", m.token("ann", "sub", ""), "", forbidden},
		{"without groups", m.token("ann", "groups", nil), "", forbidden},
		{"groups of others", m.token("ann", "groups", []string{"dev", "devsx", "DEVS"}), "", forbidden},
		{"an admin's group without the scope", m.token("eve", "groups", "root", "scope", "mcp:call"), "", 403},
	} {
		t.Run(test.name, func(t *testing.T) { m.judges(t, test.token, test.path, test.status) })
	}
	t.Run("expired within the skew of clocks", func(t *testing.T) { // only now, since the skew ends soon
		m.judges(t, m.token("ann", "exp", in(-20*time.Second)), "", 200)
	})
	for _, header := range []string{"Basic " + valid, "Bearer", valid, "Bearer " + valid + " x"} {
		response, _ := m.send(http.MethodPost, m.url+"/tools/list", http.Header{"Authorization": {header}}, "")
		if response.StatusCode != http.StatusUnauthorized {
			t.Errorf("Authorization: %.20s…: %s", header, response.Status)
		}
	}
	if response, _ := m.send(http.MethodPost, m.url+"/tools/list?access_token="+valid, nil, ""); response.StatusCode != http.StatusUnauthorized {
		t.Errorf("a token in the URL: %s", response.Status)
	}
	if log := m.router.Stderr(); strings.Contains(log, "eyJ") || strings.Contains(log, "panic") {
		t.Errorf("the log has a token or a panic:\n%s", log)
	}
}

// forbidden is 403 for a user whom no scope would help.
const forbidden = -http.StatusForbidden

// judges checks the status for the token and the challenge in the answer.
func (m *team) judges(t *testing.T, token, path string, status int) {
	t.Helper()
	response, answer := m.send(http.MethodPost, m.url+path+"/tools/list", bearer(token), "")
	if response.StatusCode != max(status, -status) {
		t.Fatalf("%s %s, want %d", response.Status, answer, status)
	}
	if strings.Contains(answer+response.Header.Get("WWW-Authenticate"), "eyJ") {
		t.Errorf("the answer has the token: %v %s", response.Header, answer)
	}
	wants := map[int]string{http.StatusUnauthorized: "invalid_token", http.StatusForbidden: "insufficient_scope"}
	want, challenged := wants[status]
	if got := response.Header.Get("WWW-Authenticate"); !challenged {
		if got != "" {
			t.Errorf("%s: WWW-Authenticate: %s", response.Status, got)
		}
		return
	}
	if token == "" {
		want = ""
	}
	got, metadata := challenge(t, response), m.origin+"/.well-known/oauth-protected-resource/mcp"+path
	if got["error"] != want || got["resource_metadata"] != metadata || got["scope"] == "" || (got["error_description"] == "") != (token == "") {
		t.Errorf("WWW-Authenticate: %v, want the error %q and %s", got, want, metadata)
	}
}

// unsigned returns a token without a signature.
func unsigned(t *testing.T, claims map[string]any, algorithm string) string {
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	header := `{"typ":"at+jwt","alg":"` + algorithm + `"}`
	return base64.RawURLEncoding.EncodeToString([]byte(header)) + "." + base64.RawURLEncoding.EncodeToString(payload) + "."
}

// hmacOf returns a token signed with HS256, by a public key as if it were a secret.
func hmacOf(t *testing.T, key jose.JSONWebKey, claims map[string]any, form string) string {
	public := key.Public()
	secret, err := x509.MarshalPKIXPublicKey(public.Key)
	switch form {
	case "pem":
		secret = pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: secret})
	case "jwk":
		secret, err = public.MarshalJSON()
	}
	if err != nil {
		t.Fatal(err)
	}
	return forge(t, jose.JSONWebKey{Key: secret, KeyID: key.KeyID, Algorithm: string(jose.HS256)}, "at+jwt", claims)
}

// embedded returns a token that has its own key in its header.
func embedded(t *testing.T, key jose.JSONWebKey, claims map[string]any) string {
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	key.KeyID = ""
	return compact(t, key, (&jose.SignerOptions{EmbedJWK: true}).WithType("at+jwt"), payload)
}

// critical returns a token whose header has a parameter that must be understood.
func critical(t *testing.T, key jose.JSONWebKey, claims map[string]any) string {
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	return compact(t, key, (&jose.SignerOptions{}).WithType("at+jwt").WithCritical("x").WithHeader("x", true), payload)
}
