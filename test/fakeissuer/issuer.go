// Package fakeissuer is an OAuth 2.1 authorization server for tests, and MCP servers that accept
// its tokens.
//
// It grants without asking a person: [Follow] plays the browser. Its [Options] say how it
// misbehaves. It checks what it receives as a strict issuer does: PKCE, redirect URIs, client
// secrets, the resource, and with [Options.Rotate] the reuse of refresh tokens. It does not check
// the signatures of clients' assertions.
package fakeissuer

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-jose/go-jose/v4/jwt"
)

// Options say how an issuer behaves. The zero value is a friendly issuer: its access tokens live
// an hour, its refresh tokens stay the same, and clients can register themselves.
type Options struct {
	// Tokens.
	Life          time.Duration // of access tokens; 0 is an hour
	NoExpiresIn   bool          // do not say how long access tokens live
	NoRefresh     bool          // issue no refresh tokens
	Rotate        bool          // each refresh token works once; the reuse of an old one revokes its whole family
	Grace         time.Duration // with Rotate: for this long after its use an old refresh token is answered again, with the same new one
	GrantedScopes []string      // that are granted whatever is asked for; nil grants what is asked for

	// Authorization responses.
	Deny       bool   // answer access_denied
	Iss        string // the iss parameter; "" is the right one
	OmitIss    bool   // send no iss parameter
	RedirectTo string // redirect there instead of to the client

	// Its data and answers.
	Clients         map[string]string // that are registered by hand: their secrets by their IDs; "" for a public client
	NoRegistration  bool              // clients can't register themselves
	NoDevice        bool              // no device grant
	ClientDocuments bool              // read client ID metadata documents
	StrictRedirect  bool              // compare ports of loopback redirect URIs, too
	RefuseResource  bool              // answer invalid_target to a resource parameter, as Entra does
	NoMetadata      bool              // describe itself nowhere
	Audience        string            // the only one for which tokens are exchanged; "" is any
	Revoked         map[string]bool   // subjects whose tokens are not exchanged

	// Faults of the token endpoint.
	Down bool // close its connections
	Hang bool // never answer
	// BeforeAnswer is called between the issue of a token and its answer. A false result closes
	// the connection instead of answering.
	BeforeAnswer func(grant string) bool
}

// Counts are how often things happened.
type Counts struct {
	Registrations, Authorizations, Refreshes, Reuses, Revocations int
	Repeats                                                       int // refreshes that were answered again in the grace
	TokenRequests                                                 int // of every grant, refused ones too
	KeyReads                                                      int
	Exchanges                                                     int // of tokens (RFC 8693), refused ones too
}

// An Issuer is a running authorization server. It ends with its test.
type Issuer struct {
	URL string // the issuer identifier

	key jose.JSONWebKey // of [Issuer.Sign]

	mu       sync.Mutex // guards the fields below
	options  Options
	counts   Counts
	clients  map[string]client
	codes    map[string]*grant
	access   map[string]*grant
	refresh  map[string]*rotation
	devices  map[string]*device
	unusable map[*family]bool
}

// A client is a registered client.
type client struct {
	secret    string
	redirects []string
	any       bool // redirect URIs are not checked: it was registered by hand
}

// A family is all tokens that follow from one login.
type family struct{ _ byte } // of a size, so that no two are equal

// A grant is the consent of a person.
type grant struct {
	client, redirect, challenge, resource string
	account                               string // that the person has chosen
	scopes                                []string
	expires                               time.Time
	family                                *family
}

// New starts an issuer.
func New(t testing.TB, o Options) *Issuer {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	i := &Issuer{
		key:     jose.JSONWebKey{Key: private, KeyID: rand.Text(), Algorithm: string(jose.ES256), Use: "sig"},
		options: o, clients: map[string]client{}, codes: map[string]*grant{}, access: map[string]*grant{},
		refresh: map[string]*rotation{}, devices: map[string]*device{}, unusable: map[*family]bool{},
	}
	for id, secret := range o.Clients {
		i.clients[id] = client{secret: secret, any: true}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/oauth-authorization-server", i.metadata)
	mux.HandleFunc("GET /keys", i.keys)
	mux.HandleFunc("GET /authorize", i.authorize)
	mux.HandleFunc("POST /token", i.token)
	mux.HandleFunc("POST /register", i.register)
	mux.HandleFunc("POST /revoke", i.revoke)
	mux.HandleFunc("POST /device", i.device)
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	i.URL = server.URL
	return i
}

// Change changes the options.
func (i *Issuer) Change(change func(*Options)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	change(&i.options)
}

// Counts returns how often things happened.
func (i *Issuer) Counts() Counts {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.counts
}

// RevokeAll makes all tokens useless, as an administrator can.
func (i *Issuer) RevokeAll() {
	i.mu.Lock()
	defer i.mu.Unlock()
	clear(i.access)
	clear(i.refresh)
}

// ForgetAccess makes all access tokens useless, but no refresh token.
func (i *Issuer) ForgetAccess() {
	i.mu.Lock()
	defer i.mu.Unlock()
	clear(i.access)
}

func (i *Issuer) metadata(w http.ResponseWriter, _ *http.Request) {
	i.mu.Lock()
	o := i.options
	i.mu.Unlock()
	if o.NoMetadata {
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	about := map[string]any{
		"issuer":                                i.URL,
		"authorization_endpoint":                i.URL + "/authorize",
		"token_endpoint":                        i.URL + "/token",
		"revocation_endpoint":                   i.URL + "/revoke",
		"jwks_uri":                              i.URL + "/keys",
		"response_types_supported":              []string{"code"},
		"code_challenge_methods_supported":      []string{"S256"},
		"token_endpoint_auth_methods_supported": []string{"none", "client_secret_basic", "client_secret_post", "private_key_jwt"},
		"grant_types_supported": []string{
			"authorization_code", "refresh_token", "client_credentials", deviceGrant,
		},
		"authorization_response_iss_parameter_supported": !o.OmitIss,
	}
	if !o.NoRegistration {
		about["registration_endpoint"] = i.URL + "/register"
	}
	if !o.NoDevice {
		about["device_authorization_endpoint"] = i.URL + "/device"
	}
	if o.ClientDocuments {
		about["client_id_metadata_document_supported"] = true
	}
	answer(w, http.StatusOK, about)
}

func (i *Issuer) keys(w http.ResponseWriter, _ *http.Request) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.counts.KeyReads++
	answer(w, http.StatusOK, jose.JSONWebKeySet{Keys: []jose.JSONWebKey{i.key.Public()}})
}

// Sign returns an access token with the claims: a JWT, which the other endpoints do not know.
func (i *Issuer) Sign(t testing.TB, claims map[string]any) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: i.key}, (&jose.SignerOptions{}).WithType("at+jwt"))
	if err != nil {
		t.Fatal(err)
	}
	token, err := jwt.Signed(signer).Claims(claims).Serialize()
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func (i *Issuer) register(w http.ResponseWriter, r *http.Request) {
	var asked map[string]any
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&asked); err != nil {
		refuse(w, http.StatusBadRequest, "invalid_client_metadata", err.Error())
		return
	}
	var c client
	list, _ := asked["redirect_uris"].([]any)
	for _, uri := range list {
		text, _ := uri.(string)
		c.redirects = append(c.redirects, text)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.options.NoRegistration {
		refuse(w, http.StatusForbidden, "access_denied", "clients can't register themselves here")
		return
	}
	i.counts.Registrations++
	asked["client_id"] = "client-" + rand.Text()
	if method, _ := asked["token_endpoint_auth_method"].(string); method != "none" {
		c.secret = rand.Text()
		asked["client_secret"], asked["client_secret_expires_at"] = c.secret, 0
	}
	i.clients[asked["client_id"].(string)] = c
	answer(w, http.StatusCreated, asked)
}

func (i *Issuer) revoke(w http.ResponseWriter, r *http.Request) {
	token := r.PostFormValue("token")
	i.mu.Lock()
	defer i.mu.Unlock()
	i.counts.Revocations++
	if old, ok := i.refresh[token]; ok {
		i.unusable[old.family] = true
	}
	delete(i.access, token)
}

func answer(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // the client is gone
}

func refuse(w http.ResponseWriter, status int, code, description string) {
	answer(w, status, map[string]string{"error": code, "error_description": description})
}
