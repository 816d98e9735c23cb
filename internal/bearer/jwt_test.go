package bearer

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestAlgorithms(t *testing.T) {
	p := newIDP()
	for _, a := range algorithms {
		k := newKey("k-"+string(a), a)
		k.Algorithm = string(a)
		p.keys = append(p.keys, k)
	}
	v, _ := p.verifier(t, Issuer{})
	for i, a := range algorithms {
		token := sign(p.keys[i], a, nil, claims(nil))
		got, err := v.Verify(t.Context(), token, resource)
		if err != nil {
			t.Errorf("%s: %v", a, err)
			continue
		}
		if sub := got.Values("sub"); got.Issuer != idpURL || len(sub) != 1 || sub[0] != "u1" || len(got.Scopes) != 2 {
			t.Errorf("%s: the token is %+v", a, got)
		}
	}
	expect.Equal(t, p.count("/keys"), 1, "requests for keys")
}

func TestAccepted(t *testing.T) {
	k := newKey("a", jose.ES256)
	now := time.Now()
	tests := []struct {
		name     string
		settings Issuer
		header   object
		changes  object
	}{
		{name: "audience in a list", changes: object{"aud": []string{"other", resource}}},
		{name: "audience with a slash", changes: object{"aud": resource + "/"}},
		{name: "configured audience", settings: Issuer{Audience: "api"}, changes: object{"aud": "api"}},
		{name: "configured keys", settings: Issuer{KeysURL: idpURL + "/keys"}},
		{name: "type JWT", header: object{"typ": "JWT"}},
		{name: "type Application/AT+jwt", header: object{"typ": "Application/AT+jwt"}},
		{name: "no type", header: object{"typ": nil}},
		{name: "names no key", header: object{"kid": nil}},
		{name: "expired within the skew", changes: object{"exp": now.Unix() - 50}},
		{name: "not valid yet within the skew", changes: object{"nbf": now.Unix() + 50, "iat": now.Unix() + 50}},
		{name: "times with fractions", changes: object{"exp": float64(now.Unix()) + 100.5}},
		{name: "token_use of Cognito", changes: object{"token_use": "access"}},
		{name: "typ of Keycloak", changes: object{"typ": "Bearer"}},
		{name: "no confirmation", changes: object{"cnf": json.RawMessage("null")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newIDP()
			p.keys = []jose.JSONWebKey{k}
			v, _ := p.verifier(t, tt.settings)
			key := k
			if kid, ok := tt.header["kid"]; ok && kid == nil {
				key.KeyID = ""
			}
			_, err := v.Verify(t.Context(), sign(key, jose.ES256, tt.header, claims(tt.changes)), resource)
			expect.OK(t, err)
		})
	}
}

// raw returns a token of these parts.
func raw(header, payload, signature string) string {
	e := base64.RawURLEncoding
	return e.EncodeToString([]byte(header)) + "." + e.EncodeToString([]byte(payload)) + "." + e.EncodeToString([]byte(signature))
}

func payload(c object) string {
	data, err := json.Marshal(c)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// weakKey returns an RSA key that is too short.
func weakKey() jose.JSONWebKey {
	private, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		panic(err)
	}
	return jose.JSONWebKey{Key: private, KeyID: "weak"}
}

// publicPEM returns the bytes that attackers use as a secret.
func publicPEM(k jose.JSONWebKey) []byte {
	der, err := x509.MarshalPKIXPublicKey(k.Public().Key)
	if err != nil {
		panic(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})
}

func TestRefused(t *testing.T) {
	k, other, rsaKey := newKey("a", jose.ES256), newKey("other", jose.ES256), newKey("r", jose.RS256)
	forEncryption, onlyRS512, thief := newKey("e", jose.RS256), newKey("512", jose.RS256), other
	forEncryption.Use, onlyRS512.Algorithm, thief.KeyID = "enc", "RS512", "a"
	weak := weakKey()
	now := time.Now().Unix()
	es := func(header, changes object) string { return sign(k, jose.ES256, header, claims(changes)) }
	good := es(nil, nil)
	parts := strings.Split(good, ".")
	encrypter, err := jose.NewEncrypter(jose.A128GCM, jose.Recipient{Algorithm: jose.RSA_OAEP_256, Key: rsaKey.Public().Key}, nil)
	expect.OK(t, err)
	encrypted, err := encrypter.Encrypt([]byte(payload(claims(nil))))
	expect.OK(t, err)
	jwe, _ := encrypted.CompactSerialize()
	deep := func(n int) json.RawMessage { return json.RawMessage(strings.Repeat("[", n) + strings.Repeat("]", n)) }
	many := object{}
	for n := range maxClaims {
		many[fmt.Sprint("c", n)] = 1
	}
	signer, err := jose.NewMultiSigner([]jose.SigningKey{{Algorithm: jose.ES256, Key: k}, {Algorithm: jose.ES256, Key: other}}, nil)
	expect.OK(t, err)
	multi, err := signer.Sign([]byte(payload(claims(nil))))
	expect.OK(t, err)

	tests := []struct{ name, token, reason string }{
		{"empty", "", "empty"},
		{"garbage", "garbage", "no signed JWT"},
		{"blanks", good + " ", "a character"},
		{"line end", parts[0] + ".\n" + parts[1] + "." + parts[2], "a character"},
		{"huge", good + strings.Repeat("A", maxToken), "longer than 16384 bytes"},
		{"algorithm none", raw(`{"alg":"none"}`, payload(claims(nil)), ""), "algorithm"},
		{"algorithm NONE with a signature", raw(`{"alg":"NONE"}`, payload(claims(nil)), "x"), "algorithm"},
		{"no algorithm", raw(`{"typ":"JWT"}`, payload(claims(nil)), "x"), "header"},
		{"HS256 with the public key", sign(publicPEM(rsaKey), jose.HS256, object{"kid": "r"}, claims(nil)), "algorithm"},
		{"header is not JSON", raw(`{"alg"`, payload(claims(nil)), "x"), "header"},
		{"header has a member twice", raw(`{"alg":"ES256","alg":"none"}`, payload(claims(nil)), "x"), "header"},
		{"deep header", raw(`{"alg":"ES256","x":`+string(deep(9000))[:8000], payload(claims(nil)), "x"), "header"},
		{"encrypted", jwe, "no signed JWT"},
		{"several signatures", multi.FullSerialize(), "a character"},
		{"payload not encoded", sign(k, jose.ES256, object{"b64": false, "crit": []string{"b64"}}, claims(nil)), ""},
		{"header b64", es(object{"b64": true}, nil), "has b64"},
		{"header crit", es(object{"crit": []string{"exp"}}, nil), "has crit"},
		{"header jku", es(object{"jku": "https://evil.example.com/keys"}, nil), "has jku"},
		{"header x5u", es(object{"x5u": "https://evil.example.com/cert"}, nil), "has x5u"},
		{"header x5c", es(object{"x5c": []string{}}, nil), "has x5c"},
		{"header jwk", sign(other, jose.ES256, object{"jwk": other.Public()}, claims(nil)), "has jwk"},
		{"many parts", strings.Repeat("e30.", 3000), "no signed JWT"},
		{"type of an ID token", es(object{"typ": "id_token+jwt"}, nil), "(typ)"},
		{"type of a logout token", es(object{"typ": "logout+jwt"}, nil), "(typ)"},
		{"type of a proof", es(object{"typ": "dpop+jwt"}, nil), "(typ)"},
		{"type is not text", es(object{"typ": 1}, nil), "(typ)"},
		{"signature of another key", sign(thief, jose.ES256, nil, claims(nil)), "signature is wrong"},
		{"unknown key", sign(other, jose.ES256, nil, claims(nil)), "no key of its issuer"},
		{"names no key, and none fits", sign(other.Key, jose.ES256, nil, claims(nil)), "no key of its issuer"},
		{"signature cut off", parts[0] + "." + parts[1] + ".", "signature is wrong"},
		{"payload changed", parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(payload(claims(object{"sub": "root"})))) + "." + parts[2], "signature is wrong"},
		{"payload is not base64url", parts[0] + ".a~b." + parts[2], "payload is not base64url"},
		{"signature is not base64url", parts[0] + "." + parts[1] + ".a~b", "signature is not base64url"},
		{"same bytes, other text", good[:len(good)-1] + otherText(good[len(good)-1]), "signature is not base64url"},
		{"algorithm of another kind of key", raw(`{"alg":"RS256","kid":"a"}`, payload(claims(nil)), "x"), "signature is wrong"},
		{"key for another algorithm", sign(onlyRS512, jose.RS256, nil, claims(nil)), "signature is wrong"},
		{"key for encryption", sign(forEncryption, jose.RS256, nil, claims(nil)), "no key of its issuer"},
		{"short RSA key", sign(weak, jose.RS256, nil, claims(nil)), "no key of its issuer"},
		{"other issuer", es(nil, object{"iss": "https://evil.example.com"}), "its issuer is https://evil.example.com, which this router does not know"},
		{"issuer with a slash", es(nil, object{"iss": idpURL + "/"}), "differs from the configured url by a slash"},
		{"issuer in capitals", es(nil, object{"iss": "https://ID.example.com"}), "does not know"},
		{"issuer is not text", es(nil, object{"iss": 1}), "(iss)"},
		{"no issuer", es(nil, object{"iss": nil}), "names its issuer"},
		{"no audience", es(nil, object{"aud": nil}), "for whom it is (aud)"},
		{"audience null", es(nil, object{"aud": json.RawMessage("null")}), "for whom it is (aud)"},
		{"audience is an object", es(nil, object{"aud": object{resource: 1}}), "(aud) is not text"},
		{"empty audience", es(nil, object{"aud": ""}), "its audience is empty, not " + resource},
		{"wrong audience", es(nil, object{"aud": "https://other.example.com"}), "its audience is https://other.example.com, not " + resource},
		{"other resource path", es(nil, object{"aud": resource + "/p/work"}), "its audience is " + resource + "/p/work, not " + resource},
		{"resource in capitals", es(nil, object{"aud": strings.ToUpper(resource)}), "its audience is"},
		{"parent of the resource", es(nil, object{"aud": "https://tools.example.com"}), "its audience is"},
		{"many audiences", es(nil, object{"aud": strings.Split(strings.Repeat("a", 200), "")}), "more than 100 audiences"},
		{"expired", es(nil, object{"exp": now - 61}), "it has expired"},
		{"no end", es(nil, object{"exp": nil}), "does not say when it expires"},
		{"end is text", es(nil, object{"exp": fmt.Sprint(now + 100)}), "exp is no time"},
		{"end is too far", es(nil, object{"exp": 1e300}), "exp is no time"},
		{"end before time", es(nil, object{"exp": -1}), "exp is no time"},
		{"not valid yet", es(nil, object{"nbf": now + 120}), "(nbf)"},
		{"beginning is text", es(nil, object{"nbf": "soon"}), "nbf is no time"},
		{"issued in the future", es(nil, object{"iat": now + 120}), "(iat)"},
		{"bound by DPoP", es(nil, object{"cnf": object{"jkt": "x"}}), "(cnf: DPoP or mTLS)"},
		{"bound by a certificate", es(nil, object{"cnf": object{"x5t#S256": "x"}}), "(cnf: DPoP or mTLS)"},
		{"ID token of Cognito", es(nil, object{"token_use": "id"}), "token_use"},
		{"ID token of Keycloak", es(nil, object{"typ": "ID"}), "(typ)"},
		{"refresh token of Keycloak", es(nil, object{"typ": "Refresh"}), "(typ)"},
		{"deep claims", es(nil, object{"x": deep(maxLevels)}), "deeper than 16 levels"},
		{"deep claims of a stranger", raw(`{"alg":"ES256"}`, string(deep(5000)), "x"), "deeper than 16 levels"},
		{"many claims", es(nil, many), "more than 200 claims"},
		{"claim twice", sign(k, jose.ES256, nil, []byte(`{"iss":"https://id.example.com","iss":"x"}`)), "a claim twice"},
		{"claims are no object", sign(k, jose.ES256, nil, []byte(`["a"]`)), "not a JSON object"},
		{"claims are not UTF-8", sign(k, jose.ES256, nil, []byte("{\"iss\":\"\xff\"}")), "not UTF-8"},
		{"many scopes", es(nil, object{"scope": manyScopes()}), "more than 200 scopes"},
		{"scope is a number", es(nil, object{"scope": 7}), "scope is not text"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newIDP()
			p.keys = []jose.JSONWebKey{k, rsaKey, forEncryption, onlyRS512, weak}
			v, _ := p.verifier(t, Issuer{})
			for range 2 { // nothing is kept of the first
				_, err := v.Verify(t.Context(), tt.token, resource)
				refused := refusal(t, err)
				got := refused.Reason
				expect.Equal(t, refused.Genuine, genuineReasons.MatchString(got) && !strings.Contains(tt.name, "stranger"), "issued by the issuer")
				expect.Contains(t, got, tt.reason, "the reason")
				checkReason(t, got)
			}
			if p.asked["/cert"] > 0 || len(p.asked) > 3 {
				t.Errorf("it asked for %v", p.asked)
			}
		})
	}
}

// genuineReasons are the reasons of tokens whose signature was verified before.
var genuineReasons = regexp.MustCompile(`aud|expire|\((nbf|iat|cnf.*|token_use)\)|no time|no access token|scope`)

func manyScopes() string {
	var b strings.Builder
	for n := range maxScopes + 1 {
		fmt.Fprintf(&b, "s%d ", n)
	}
	return b.String()
}

// otherText returns a letter that differs from the last letter of a token only in bits that a
// decoder may ignore.
func otherText(last byte) string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	return string(letters[strings.IndexByte(letters, last)^1])
}

// checkReason fails if the reason may not stand in an error_description (RFC 6750, section 3).
func checkReason(t *testing.T, reason string) {
	t.Helper()
	if reason == "" || len(reason) > 300 {
		t.Errorf("the reason has %d bytes", len(reason))
	}
	for _, c := range []byte(reason) {
		if c < ' ' || c > '~' || c == '"' || c == '\\' {
			t.Errorf("the reason %q has the byte %q", reason, c)
		}
	}
}

func TestReasonShowsStrangersTextBounded(t *testing.T) {
	s := newSetup(t)
	for _, text := range []string{strings.Repeat("x", 5000), "a\"b\\c\r\nd\x7fü\x1b[31m", strings.Repeat("ü", 500)} {
		for _, name := range []string{"iss", "aud"} {
			_, err := s.v.Verify(t.Context(), sign(s.key, jose.ES256, nil, claims(object{name: text})), resource+strings.Repeat("/long", 200))
			checkReason(t, refusal(t, err).Reason)
		}
	}
}

// A token whose audience is checked at each use: it is kept for one resource and refused for another.
func TestAudienceOfKeptToken(t *testing.T) {
	s := newSetup(t)
	for range 2 {
		s.want(t, s.token, "valid")
		for _, other := range []string{resource + "/p/work", "", "https://tools.example.com"} {
			_, err := s.v.Verify(t.Context(), s.token, other)
			refusal(t, err)
		}
	}
	_, err := s.v.Verify(t.Context(), sign(s.key, jose.ES256, nil, claims(object{"aud": ""})), "")
	refusal(t, err)
}

// Two issuers: the key of one does not sign for the other.
func TestKeysOfOtherIssuer(t *testing.T) {
	a, b := newIDP(), newIDP()
	b.url = "https://b.example.com"
	a.keys, b.keys = []jose.JSONWebKey{newKey("k", jose.ES256)}, []jose.JSONWebKey{newKey("k", jose.ES384)}
	v := a.and(t, b, Issuer{URL: a.url}, Issuer{URL: b.url}, Issuer{URL: a.url, Audience: "twice"})
	_, err := v.Verify(t.Context(), sign(a.keys[0], jose.ES256, nil, claims(nil)), resource)
	expect.OK(t, err)
	_, err = v.Verify(t.Context(), sign(b.keys[0], jose.ES384, nil, claims(object{"iss": b.url})), resource)
	expect.OK(t, err)
	_, err = v.Verify(t.Context(), sign(a.keys[0], jose.ES256, nil, claims(object{"iss": b.url})), resource)
	refusal(t, err)
}

// FuzzVerify feeds tokens of strangers: none is valid, and each refusal is fit for a header.
func FuzzVerify(f *testing.F) {
	k := newKey("a", jose.ES256)
	p := newIDP()
	p.keys = []jose.JSONWebKey{k}
	f.Add(raw(`{"alg":"none"}`, `{"iss":"https://id.example.com"}`, ""))
	f.Add(raw(`{"alg":"ES256","kid":"a"}`, payload(claims(nil)), "x"))
	f.Add("a.b.c")
	f.Add("..")
	good := sign(k, jose.ES256, nil, claims(nil))
	f.Add(good + "A")
	v, _ := p.verifier(f, Issuer{})
	f.Fuzz(func(t *testing.T, token string) {
		_, err := v.Verify(t.Context(), token, resource)
		if err == nil {
			t.Fatalf("%q is valid", token)
		}
		checkReason(t, refusal(t, err).Reason)
	})
}

// FuzzParseClaims feeds objects that an issuer signed or sent.
func FuzzParseClaims(f *testing.F) {
	f.Add([]byte(`{"aud":["a"],"exp":1e3,"scope":"a b","cnf":{}}`), "aud")
	f.Add([]byte(`{"a":{"b.c":[1,true,"x"]}}`), "a.b.c")
	f.Fuzz(func(t *testing.T, object []byte, name string) {
		claims, err := parseClaims(object)
		if err != nil {
			checkReason(t, refusal(t, err).Reason)
			return
		}
		if !json.Valid(object) {
			t.Fatalf("%q is no JSON", object)
		}
		i := &issuer{settings: Issuer{URL: idpURL}}
		found, err := newVerified(i, claims, true)
		if err != nil {
			checkReason(t, refusal(t, err).Reason)
			return
		}
		found.Values(name)
		if time.Until(found.Expires) < -clockSkew {
			t.Fatalf("it expired at %v", found.Expires)
		}
	})
}
