//go:build linux

package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"io"
	"maps"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"golang.org/x/oauth2"

	"github.com/mcp-metarouter/metarouter/test/external"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// A team is a router behind the identity provider of a team. The profile "workbench" has the server
// "quill", "opsroom" has "kite". Users in the group devs have the first one, users in ops both, if
// they are in devs too, and are administrators.
type team struct {
	*setup
	issuer *external.Issuer
	key    jose.JSONWebKey // of the issuer, private
	origin string          // http.publicUrl
	url    string          // of the MCP path
	router *mcptest.Client
}

// teamOptions change a team.
type teamOptions struct {
	life   time.Duration  // of access tokens; default 10 minutes
	opaque bool           // access tokens are no JWTs
	rules  map[string]any // more keys of the issuer in the configuration
	http   map[string]any // more keys of "http"
	own    map[string]any // more keys of "metarouter"

	servers entries // instead of quill and kite
}

// longVariable makes the tests of OAuth thorough: keys change for this time, the router is seen to
// forget what it has verified, all of the conformance suite runs, and calls are measured.
const longVariable = "METAROUTER_OAUTH"

// longTime returns how long keys change, and whether the tests are thorough.
func longTime(t *testing.T) (d time.Duration, long bool) {
	t.Helper()
	asked := os.Getenv(longVariable)
	if asked == "" {
		return 5 * time.Second, false
	}
	d, err := time.ParseDuration(asked)
	if err != nil {
		t.Fatalf("%s: %v", longVariable, err)
	}
	return d, true
}

const (
	usersToken = "fixed-token-of-a-user"
	adminToken = "fixed-token-of-an-admin"
)

// groups are the users of the team.
var groups = map[string][]string{"ann": {"devs"}, "bob": {"devs", "ops"}, "cid": {}}

// newTeam starts an identity provider and a router.
func newTeam(t *testing.T, o teamOptions) *team {
	t.Helper()
	if o.life == 0 {
		o.life = 10 * time.Minute
	}
	address := mcptest.FreeAddress(t)
	m := &team{key: newKey(t), origin: "http://" + address, url: "http://" + address + "/mcp"}
	m.issuer = external.StartIssuerWith(t, external.IssuerOptions{
		Life: o.life, Scopes: []string{"mcp:read", "mcp:call", "mcp:admin"}, Resources: m.origin + "/",
		Groups: groups, JWT: !o.opaque, Keys: []jose.JSONWebKey{m.key},
	})
	if o.servers == nil {
		o.servers = teamServers()
	}
	m.setup = prepare(t, o.servers, m.settings(o))
	m.router = m.serveAt(address)
	return m
}

func teamServers() entries {
	quill := fake("-tools", "echo", "-tool", "write_note: Add a note.", "-prompts", "greet_writer", "-resources", "file:///quill.txt")
	quill["trustHints"] = true
	return entries{"quill": quill, "kite": fake("-tools", "pid", "-tool", "rollout_kite: Roll out.")}
}

func (m *team) settings(o teamOptions) map[string]any {
	issuer := map[string]any{
		"url":      m.issuer.URL,
		"profiles": map[string]any{"groups=devs": "workbench", "groups=ops": "opsroom"},
		"admins":   []string{"groups=ops", "groups=root"},
	}
	maps.Copy(issuer, o.rules)
	http := map[string]any{
		"publicUrl": m.origin,
		"oauth":     map[string]any{"issuers": []any{issuer}},
		"tokens": []map[string]any{
			{"token": usersToken, "name": "robot", "profile": "workbench"},
			{"token": adminToken, "name": "root", "role": "admin"},
		},
	}
	maps.Copy(http, o.http)
	own := map[string]any{
		"mode": "direct", "listWait": "1m", "http": http,
		"profiles": map[string]any{
			"workbench": map[string]any{"servers": []string{"quill"}},
			"opsroom":   map[string]any{"servers": []string{"kite"}},
		},
	}
	maps.Copy(own, o.own)
	return own
}

// newKey returns a private key for RS256.
func newKey(t testing.TB) jose.JSONWebKey {
	t.Helper()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return jose.JSONWebKey{Key: private, KeyID: rand.Text(), Algorithm: string(jose.RS256), Use: "sig"}
}

// claims returns the claims of a token that the issuer might issue to the user for the MCP path.
func (m *team) claims(user string) map[string]any {
	now := time.Now().Unix()
	return map[string]any{
		"iss": m.issuer.URL, "sub": user, "aud": m.url, "client_id": "test", "jti": rand.Text(),
		"iat": now, "exp": now + 600, "scope": "mcp:read mcp:call mcp:admin", "groups": groups[user],
	}
}

// token returns a token of the issuer's key with these claims, each changed as "name", value, …; a
// nil value removes a claim.
func (m *team) token(user string, changes ...any) string {
	m.t.Helper()
	claims := m.claims(user)
	for change := range slices.Chunk(changes, 2) {
		claims[change[0].(string)] = change[1]
		if change[1] == nil {
			delete(claims, change[0].(string))
		}
	}
	return forge(m.t, m.key, "at+jwt", claims)
}

// forge signs claims with a key.
func forge(t testing.TB, key jose.JSONWebKey, typ string, claims map[string]any) string {
	t.Helper()
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	options := (&jose.SignerOptions{}).WithType(jose.ContentType(typ))
	return compact(t, key, options, payload)
}

func compact(t testing.TB, key jose.JSONWebKey, o *jose.SignerOptions, payload []byte) string {
	t.Helper()
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(key.Algorithm), Key: key}, o)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// logIn has a user log in at the issuer in a browser, as a client that registers itself, and returns
// the access token.
func (m *team) logIn(user, resource string, scopes ...string) string {
	m.t.Helper()
	ctx := within(m.t)
	const redirect = "http://127.0.0.1:1/callback" // where nothing is
	status, body := m.post(m.issuer.URL+"/reg", nil, `{"redirect_uris":["`+redirect+`"],"token_endpoint_auth_method":"none","application_type":"native"}`)
	var client struct {
		ID string `json:"client_id"`
	}
	if err := json.Unmarshal([]byte(body), &client); err != nil || client.ID == "" {
		m.t.Fatalf("register: %d %s", status, body)
	}
	c := oauth2.Config{
		ClientID: client.ID, RedirectURL: redirect, Scopes: scopes,
		Endpoint: oauth2.Endpoint{AuthURL: m.issuer.URL + "/auth", TokenURL: m.issuer.URL + "/token", AuthStyle: oauth2.AuthStyleInParams},
	}
	verifier, state, of := oauth2.GenerateVerifier(), rand.Text(), oauth2.SetAuthURLParam("resource", resource)
	p := newPerson(m.t, true)
	p.fields["login"] = user
	end, err := p.visit(ctx, c.AuthCodeURL(state, oauth2.S256ChallengeOption(verifier), of))
	if err != nil {
		m.t.Fatalf("log in as %s: %v", user, err)
	}
	back, err := url.Parse(end)
	if err != nil || back.Query().Get("state") != state {
		m.t.Fatalf("log in as %s: the browser ends at %s", user, end)
	}
	token, err := c.Exchange(ctx, back.Query().Get("code"), oauth2.VerifierOption(verifier), of)
	if err != nil {
		m.t.Fatalf("log in as %s at %s: %v", user, end, err)
	}
	return token.AccessToken
}

// post sends JSON.
func (m *team) post(url string, header http.Header, body string) (status int, answer string) {
	m.t.Helper()
	response, answer := m.send(http.MethodPost, url, header, body)
	return response.StatusCode, answer
}

// send sends a request to any URL.
func (m *team) send(method, url string, header http.Header, body string) (*http.Response, string) {
	m.t.Helper()
	response, answer, err := send(within(m.t), method, url, header, body)
	if err != nil {
		m.t.Fatal(err)
	}
	return response, answer
}

// anywhere sends each request from another address, since the router challenges only so many bad tokens
// from one.
var anywhere = &http.Transport{
	DisableKeepAlives: true,
	DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		local := &net.TCPAddr{IP: net.IPv4(127, byte(mathrand.N(256)), byte(mathrand.N(256)), byte(1+mathrand.N(254)))}
		return (&net.Dialer{LocalAddr: local}).DialContext(ctx, network, address)
	},
}

func send(ctx context.Context, method, url string, header http.Header, body string) (*http.Response, string, error) {
	r, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return nil, "", err
	}
	r.Header.Set("Content-Type", "application/json")
	maps.Copy(r.Header, header)
	client := http.Client{Transport: anywhere, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(r)
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	var all bytes.Buffer
	_, err = io.Copy(&all, io.LimitReader(response.Body, 1<<20))
	return response, all.String(), err
}

// bearer is the header with a token; "" is none.
func bearer(token string) http.Header {
	if token == "" {
		return nil
	}
	return http.Header{"Authorization": {"Bearer " + token}}
}

// client returns an MCP client of an era that has a token.
func (m *team) client(url, token, era string) (*session, error) {
	c := mcptest.NewHTTPClient(m.t, url)
	c.Header = bearer(token)
	s := &session{client: c, modern: era == "modern", notifications: c.Notifications}
	begin := c.Initialize
	if s.modern {
		begin = c.Discover
	}
	_, err := begin(within(m.t))
	return s, err
}

// challenge returns the parameters of the WWW-Authenticate header of a response.
func challenge(t *testing.T, r *http.Response) map[string]string {
	t.Helper()
	lines := r.Header.Values("WWW-Authenticate")
	if len(lines) != 1 || !strings.HasPrefix(lines[0], "Bearer ") {
		return map[string]string{"": strings.Join(lines, "; ")}
	}
	found := map[string]string{}
	for rest := strings.TrimPrefix(lines[0], "Bearer "); rest != ""; {
		name, after, ok := strings.Cut(rest, `="`)
		value, more, closed := strings.Cut(after, `"`)
		if !ok || !closed || found[name] != "" {
			t.Errorf("WWW-Authenticate: %s", lines[0])
			return found
		}
		found[name] = value
		rest = strings.TrimPrefix(more, ", ")
	}
	return found
}
