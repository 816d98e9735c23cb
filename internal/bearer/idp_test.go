package bearer

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/mcp-metarouter/metarouter/internal/clientauth"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	idpURL   = "https://id.example.com"
	resource = "https://tools.example.com/mcp"
)

// An idp is an issuer in memory. It is its own transport.
type idp struct {
	url string

	mu         sync.Mutex // guards the fields below
	keys       []jose.JSONWebKey
	extra      []json.RawMessage // more elements of its key set
	down       error             // of each connection
	status     map[string]int    // by path
	hold       chan struct{}     // requests wait until it is closed; nil for none
	asked      map[string]int    // requests by path
	introspect http.HandlerFunc
	metadata   map[string]any // replaces members
}

func newIDP() *idp { return &idp{url: idpURL, asked: map[string]int{}, status: map[string]int{}} }

func (p *idp) client(Issuer) *http.Client { return &http.Client{Transport: p} }

// RoundTrip answers a request.
func (p *idp) RoundTrip(r *http.Request) (*http.Response, error) {
	p.mu.Lock()
	p.asked[r.URL.Path]++
	down, hold := p.down, p.hold
	p.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-r.Context().Done():
			return nil, r.Context().Err()
		}
	}
	if down != nil {
		return nil, down
	}
	w := httptest.NewRecorder()
	p.serve(w, r)
	return w.Result(), nil
}

func (p *idp) serve(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	status, introspect := p.status[r.URL.Path], p.introspect
	var answer any
	switch r.URL.Path {
	case "/.well-known/openid-configuration":
		metadata := map[string]any{"issuer": p.url, "jwks_uri": p.url + "/keys", "introspection_endpoint": p.url + "/introspect"}
		maps.Copy(metadata, p.metadata)
		answer = metadata
	case "/keys", "/moved":
		all := slices.Clone(p.extra)
		for _, k := range p.keys {
			public := k.Public()
			raw, err := public.MarshalJSON()
			if err != nil {
				panic(err)
			}
			all = append(all, raw)
		}
		answer = map[string]any{"keys": append([]json.RawMessage{}, all...)}
	}
	p.mu.Unlock()
	switch {
	case status != 0:
		w.WriteHeader(status)
		json.NewEncoder(w).Encode(answer)
	case r.URL.Path == "/introspect" && introspect != nil:
		introspect(w, r)
	case answer == nil:
		http.NotFound(w, r)
	default:
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(answer)
	}
}

func (p *idp) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// count returns how many requests for the path came.
func (p *idp) count(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[path]
}

// A testVerifier verifies tokens of these issuers.
type testVerifier struct {
	*Verifier
	accepted []Issuer
}

func (v *testVerifier) Verify(ctx context.Context, token, resource string) (*Token, error) {
	return v.Verifier.Verify(ctx, v.accepted, token, resource)
}

// verifier returns a verifier of tokens of this issuer, and its log.
func (p *idp) verifier(t testing.TB, settings Issuer) (*testVerifier, *observer.ObservedLogs) {
	t.Helper()
	core, logs := observer.New(zap.InfoLevel)
	if settings.URL == "" {
		settings.URL = p.url
	}
	v := New(Options{Client: p.client, Log: zap.New(core)})
	t.Cleanup(v.Close)
	return &testVerifier{v, []Issuer{settings}}, logs
}

// and returns a verifier of tokens of this issuer and another one.
func (p *idp) and(t *testing.T, other *idp, all ...Issuer) *testVerifier {
	v := New(Options{Log: zap.NewNop(), Client: func(i Issuer) *http.Client {
		if i.URL == p.url {
			return p.client(i)
		}
		return other.client(i)
	}})
	t.Cleanup(v.Close)
	return &testVerifier{v, all}
}

var made sync.Map // keys by name: RSA takes its time

// newKey returns a key for the algorithm. Keys of the same name are the same.
func newKey(kid string, a jose.SignatureAlgorithm) jose.JSONWebKey {
	name := fmt.Sprint(kid, a)
	if k, ok := made.Load(name); ok {
		return k.(jose.JSONWebKey)
	}
	var private any
	var err error
	switch a {
	case jose.ES256:
		private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case jose.ES384:
		private, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case jose.ES512:
		private, err = ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	case jose.EdDSA:
		_, private, err = ed25519.GenerateKey(rand.Reader)
	default:
		private, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	if err != nil {
		panic(err)
	}
	k, _ := made.LoadOrStore(name, jose.JSONWebKey{Key: private, KeyID: kid})
	return k.(jose.JSONWebKey)
}

type object = map[string]any

// claims returns the claims of a good token, changed. A member that becomes nil is left out.
func claims(changes object) object {
	now := time.Now()
	all := object{
		"iss": idpURL, "aud": resource, "sub": "u1", "scope": "mcp:read mcp:call",
		"iat": now.Unix(), "exp": now.Add(10 * time.Minute).Unix(),
	}
	for name, value := range changes {
		if all[name] = value; value == nil {
			delete(all, name)
		}
	}
	return all
}

// sign returns a token.
func sign(k any, a jose.SignatureAlgorithm, header object, payload any) string {
	options := (&jose.SignerOptions{}).WithType("at+jwt")
	for name, value := range header {
		if value == nil {
			delete(options.ExtraHeaders, jose.HeaderKey(name))
			continue
		}
		options.WithHeader(jose.HeaderKey(name), value)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: a, Key: k}, options)
	if err != nil {
		panic(err)
	}
	data, ok := payload.([]byte)
	if !ok {
		if data, err = json.Marshal(payload); err != nil {
			panic(err)
		}
	}
	signed, err := signer.Sign(data)
	if err != nil {
		panic(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		panic(err)
	}
	return text
}

// refusal returns why a token was refused, and fails the test if it was not.
func refusal(t *testing.T, err error) *clientauth.Refusal {
	t.Helper()
	refused, ok := errors.AsType[*clientauth.Refusal](err)
	if !ok {
		t.Fatalf("the error is %v, not a refusal", err)
	}
	return refused
}
