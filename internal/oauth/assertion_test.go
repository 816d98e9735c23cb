package oauth

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// keys returns private keys of all kinds, in PEM.
func keys(t *testing.T) map[string]struct {
	pem string
	key crypto.Signer
} {
	t.Helper()
	must := func(err error) {
		expect.OK(t, err)
	}
	type pair = struct {
		pem string
		key crypto.Signer
	}
	text := func(kind string, der []byte) string {
		return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
	}
	all := map[string]pair{}
	add := func(name string, key crypto.Signer) {
		der, err := x509.MarshalPKCS8PrivateKey(key)
		must(err)
		all[name] = pair{text("PRIVATE KEY", der), key}
	}
	for name, curve := range map[string]elliptic.Curve{"P-256": elliptic.P256(), "P-384": elliptic.P384(), "P-521": elliptic.P521()} {
		key, err := ecdsa.GenerateKey(curve, rand.Reader)
		must(err)
		add(name, key)
		der, err := x509.MarshalECPrivateKey(key)
		must(err)
		all[name+" SEC 1"] = pair{text("EC PRIVATE KEY", der), key}
	}
	_, edwards, err := ed25519.GenerateKey(rand.Reader)
	must(err)
	add("Ed25519", edwards)
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	must(err)
	add("RSA", key)
	all["RSA PKCS#1"] = pair{text("RSA PRIVATE KEY", x509.MarshalPKCS1PrivateKey(key)), key}
	return all
}

func TestAssertion(t *testing.T) {
	all := keys(t)
	for _, test := range []struct {
		key, wanted string
		listed      []string
		want        jose.SignatureAlgorithm
	}{
		{"P-256", "", nil, jose.ES256},
		{"P-256 SEC 1", "ES256", []string{"RS256"}, jose.ES256},
		{"P-384", "", nil, jose.ES384},
		{"P-521", "", nil, jose.ES512},
		{"Ed25519", "", nil, jose.EdDSA},
		{"RSA", "", nil, jose.RS256},
		{"RSA", "", []string{"ES256", "PS256"}, jose.PS256},
		{"RSA PKCS#1", "PS512", nil, jose.PS512},
		{"RSA", "RS384", nil, jose.RS384},
	} {
		t.Run(test.key+" "+string(test.want), func(t *testing.T) {
			g, asked := answers(`200 {"access_token": "A"}`)
			g.Client = Client{ID: "me", AuthMethod: "private_key_jwt"}
			g.Issuer.SigningAlgorithms = test.listed
			g.Settings = Settings{PrivateKey: all[test.key].pem, Algorithm: test.wanted, KeyID: "k1"}
			for range 2 {
				_, err := g.ClientCredentials(t.Context(), nil)
				expect.OK(t, err)
			}
			form := asked.asked[0].form
			if form.Get("client_assertion_type") != "urn:ietf:params:oauth:client-assertion-type:jwt-bearer" || form.Get("client_id") != "me" || form.Has("client_secret") {
				t.Errorf("asked with %v", form)
			}
			first := checkAssertion(t, form.Get("client_assertion"), test.want, all[test.key].key.Public(), g.Issuer.ID)
			second := checkAssertion(t, asked.asked[1].form.Get("client_assertion"), test.want, all[test.key].key.Public(), g.Issuer.ID)
			if first == second || first == "" {
				t.Errorf("two assertions have the IDs %q and %q", first, second)
			}
		})
	}
}

// checkAssertion checks an assertion, and returns its ID.
func checkAssertion(t *testing.T, text string, algorithm jose.SignatureAlgorithm, key crypto.PublicKey, issuer string) string {
	t.Helper()
	token, err := jwt.ParseSigned(text, []jose.SignatureAlgorithm{algorithm})
	expect.OK(t, err)
	var claims jwt.Claims
	var raw map[string]any
	expect.OK(t, token.Claims(key, &claims, &raw))
	expect.OK(t, claims.Validate(jwt.Expected{Issuer: "me", Subject: "me", AnyAudience: []string{issuer}, Time: time.Now()}))
	expect.Equal[any](t, raw["aud"], issuer, "the audience, a string")
	expect.Equal(t, claims.Expiry.Time().Sub(claims.IssuedAt.Time()), time.Minute, "it lives for")
	expect.Equal(t, token.Headers[0].KeyID, "k1", "its key")
	return claims.ID
}

func TestKeysThatCanNotSign(t *testing.T) {
	all := keys(t)
	good := all["P-256"].pem
	lines := strings.Split(good, "\n")
	for name, test := range map[string]struct {
		key, algorithm, err string
	}{
		"nothing":              {"", "", "not in PEM"},
		"no PEM":               {"hunter2", "", "not in PEM"},
		"damaged":              {lines[0] + "\naHVudGVyMg==\n" + lines[len(lines)-2] + "\n", "", "can't be read"},
		"public":               {strings.ReplaceAll(good, "PRIVATE", "PUBLIC"), "", "not of a private key"},
		"encrypted":            {strings.ReplaceAll(good, "PRIVATE", "ENCRYPTED PRIVATE"), "", "without a password"},
		"algorithm of another": {good, "RS256", "does not fit"},
		"no algorithm":         {good, "none", "does not fit"},
		"a shared secret":      {good, "HS256", "does not fit"},
		"other curve":          {good, "ES384", "does not fit"},
	} {
		t.Run(name, func(t *testing.T) {
			g := &Grantor{HTTP: nil, Issuer: Issuer{ID: "https://as.example", TokenEndpoint: "https://127.0.0.1:1/token"}, Client: Client{ID: "me", AuthMethod: "private_key_jwt"}}
			g.Settings = Settings{PrivateKey: test.key, Algorithm: test.algorithm}
			_, err := g.ClientCredentials(t.Context(), nil)
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Fatalf("error %v, want %q", err, test.err)
			}
			if slices.ContainsFunc(append(lines[1:len(lines)-2], "hunter2"), func(part string) bool { return strings.Contains(err.Error(), part) }) {
				t.Errorf("the error quotes the key: %v", err)
			}
		})
	}
	_, err := parseKey(strings.ReplaceAll(good, "\n", `\n`))
	expect.OK(t, err, "a key on one line")
}
