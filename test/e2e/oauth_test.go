//go:build linux

package e2e

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/external"
	"github.com/mcp-metarouter/metarouter/test/fakeissuer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// A team is a router behind the identity provider of a team. The profile "workbench" has the server
// "quill", "opsroom" has "kite". Users in the group devs have the first one, users in ops both, if
// they are in devs too, and are administrators.
type team struct {
	*setup
	signer *fakeissuer.Issuer // nil if people log in
	issuer string             // its URL
	origin string             // http.publicUrl
	url    string             // of the MCP path
	router *mcptest.Client
}

const (
	usersToken = "fixed-token-of-a-user"
	adminToken = "fixed-token-of-an-admin"
)

// groups are the users of the team.
var groups = map[string][]string{"ann": {"devs"}, "bob": {"devs", "ops"}, "cid": {}}

// Names of tools, as clients see them.
var (
	quillTools = []string{"quill__echo", "quill__write_note"}
	kiteTools  = []string{"kite__pid", "kite__rollout_kite"}
)

// newTeam starts a router and its identity provider: a real one, where people log in, or one whose tokens the test signs.
func newTeam(t *testing.T, people bool) *team {
	t.Helper()
	address := mcptest.FreeAddress(t)
	m := &team{origin: "http://" + address, url: "http://" + address + "/mcp"}
	if people {
		m.issuer = external.StartIssuerWith(t, external.IssuerOptions{
			Life: 10 * time.Minute, Scopes: []string{"mcp:read", "mcp:call", "mcp:admin"}, Resources: m.origin + "/",
			Groups: groups, JWT: true,
		}).URL
	} else {
		m.signer = fakeissuer.New(t, fakeissuer.Options{})
		m.issuer = m.signer.URL
	}
	quill := fake("-tools", "echo", "-tool", "write_note: Add a note.", "-prompts", "greet_writer", "-resources", "file:///quill.txt")
	quill["trustHints"] = true
	m.setup = prepare(t, entries{"quill": quill, "kite": fake("-tools", "pid", "-tool", "rollout_kite: Roll out.")}, m.settings())
	m.router = m.serveAt(address)
	return m
}

func (m *team) settings() map[string]any {
	return map[string]any{
		"mode": "direct", "listWait": "1m",
		"http": map[string]any{
			"publicUrl": m.origin,
			"oauth": map[string]any{"issuers": []any{map[string]any{
				"url":      m.issuer,
				"profiles": map[string]any{"groups=devs": "workbench", "groups=ops": "opsroom"},
				"admins":   []string{"groups=ops", "groups=root"},
			}}},
			"tokens": []map[string]any{
				{"token": usersToken, "name": "robot", "profile": "workbench"},
				{"token": adminToken, "name": "root", "role": "admin"},
			},
		},
		"profiles": map[string]any{
			"workbench": map[string]any{"servers": []string{"quill"}},
			"opsroom":   map[string]any{"servers": []string{"kite"}},
		},
	}
}

// token returns a token for the MCP path, with these claims instead of the usual ones: "name", value, …
func (m *team) token(user string, changes ...any) string {
	m.t.Helper()
	now := time.Now().Unix()
	claims := map[string]any{
		"iss": m.issuer, "sub": user, "aud": m.url, "client_id": "test", "jti": rand.Text(),
		"iat": now, "exp": now + 600, "scope": "mcp:read mcp:call mcp:admin", "groups": groups[user],
	}
	for change := range slices.Chunk(changes, 2) {
		claims[change[0].(string)] = change[1]
	}
	return m.signer.Sign(m.t, claims)
}

// A registeredClient is known to an issuer.
type registeredClient struct {
	ID     string `json:"client_id"`
	Secret string `json:"client_secret"`
}

// registerClient registers a client at an issuer.
func registerClient(t *testing.T, issuer string, about map[string]any) (c registeredClient) {
	t.Helper()
	text, err := json.Marshal(about)
	expect.OK(t, err)
	r, err := http.Post(issuer+"/reg", "application/json", bytes.NewReader(text))
	expect.OK(t, err)
	defer r.Body.Close()
	if err := json.NewDecoder(r.Body).Decode(&c); err != nil || c.ID == "" {
		t.Fatalf("register: %s, %v", r.Status, err)
	}
	return c
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

// send sends a request to any URL.
func (m *team) send(method, url string, header http.Header, body string) (*http.Response, string) {
	m.t.Helper()
	return sendJSON(m.t, anywhere, method, url, header, body)
}

// list lists the tools without MCP's transports.
func (m *team) list(path, token string) (*http.Response, string) {
	m.t.Helper()
	return m.send(http.MethodPost, m.url+path+"/tools/list", bearer(token), "")
}

// client returns an MCP client of an era that has a token.
func (m *team) client(token, era string) (*session, error) {
	c := mcptest.NewHTTPClient(m.t, m.url)
	c.Header = bearer(token)
	s := &session{client: c, modern: era == "modern", notifications: c.Notifications}
	begin := c.Initialize
	if s.modern {
		begin = c.Discover
	}
	_, err := begin(within(m.t))
	return s, err
}

// A token of the team's identity provider gives what the groups of its user have, over each
// transport, or is refused. internal/web shows what else is refused.
func TestOAuth(t *testing.T) {
	t.Parallel()
	m := newTeam(t, false)
	both := slices.Concat(kiteTools, quillTools)
	for _, user := range []struct {
		who, token string
		sees       []string
		admin      bool
	}{
		{"ann", m.token("ann"), quillTools, false},
		{"ann for reading", m.token("ann", "scope", "mcp:read"), quillTools[:1], false},
		{"bob", m.token("bob"), both, true},
		{"an admin without a profile", m.token("eve", "groups", "root"), both, true},
		{"a fixed token", usersToken, quillTools, false},
		{"a fixed token of an admin", adminToken, both, true},
	} {
		for _, era := range []string{"legacy", "modern"} {
			c, err := m.client(user.token, era)
			expect.OK(t, err, "%s, %s", user.who, era)
			listed, err := mcptest.ToolNames(within(t), c)
			if slices.Sort(listed); err != nil || !slices.Equal(listed, user.sees) {
				t.Errorf("%s, %s: sees %q, %v; want %q", user.who, era, listed, err, user.sees)
			}
			for _, tool := range both {
				result, err := c.call(within(t), tool, map[string]any{"message": "hello"})
				expect.Equal(t, slices.Contains(user.sees, tool), err == nil, "%s, %s: call of %s: %s, %v", user.who, era, tool, result, err)
			}
		}
		response, body := m.list("", user.token)
		if sees := strings.Contains(body, kiteTools[0]); response.StatusCode != http.StatusOK || sees != slices.Contains(user.sees, kiteTools[0]) {
			t.Errorf("%s, REST: %s %s", user.who, response.Status, body)
		}
		if response, _ := m.send(http.MethodGet, m.origin+"/metrics", bearer(user.token), ""); user.admin != (response.StatusCode == http.StatusOK) {
			t.Errorf("%s, metrics: %s", user.who, response.Status)
		}
		_, scan := m.send(http.MethodGet, m.origin+"/v1/mesh_scan", bearer(user.token), "")
		expect.Equal(t, regexp.MustCompile(`"pid":[1-9]`).MatchString(scan), user.admin, "%s, mesh_scan: %s", user.who, scan)
	}
	for token, status := range map[string]int{"": 401, "abc": 401, m.token("ann", "exp", 1): 401, m.token("cid"): 403} {
		for _, era := range []string{"legacy", "modern"} {
			_, err := m.client(token, era)
			if refused := (*mcptest.StatusError)(nil); !errors.As(err, &refused) || refused.Status != status {
				t.Errorf("%.20s, %s: %v, want %d", token, era, err, status)
			}
		}
	}
	if log := m.router.Stderr(); strings.Contains(log, "eyJ") {
		t.Errorf("the log has a token:\n%s", log)
	}
}
