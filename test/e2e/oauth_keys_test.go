//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/mcp-metarouter/metarouter/test/external"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// status returns the status of a call with a token, and what it says.
func (m *team) status(token string) (int, http.Header, string) {
	m.t.Helper()
	response, body := m.send(http.MethodPost, m.url+"/tools/call", bearer(token), `{"name":"quill__echo","arguments":{"message":"hello"}}`)
	return response.StatusCode, response.Header, body
}

// A load is clients that call with tokens of the newest key.
type load struct {
	*team
	key  sync.RWMutex // guards the team's key; held for reading during a call
	made atomic.Int64
}

// call calls once, over plain HTTP with a token of its own or in a session.
func (l *load) call(t *testing.T, user string, c *session) error {
	l.key.RLock()
	defer l.key.RUnlock()
	token := l.token(user)
	if c == nil {
		if code, _, body := l.status(token); code != http.StatusOK || !strings.Contains(body, "hello") {
			return fmt.Errorf("%d %s", code, body)
		}
	} else {
		c.client.(*mcptest.HTTPClient).Header = bearer(token)
		raw, err := c.call(within(t), "quill__echo", map[string]any{"message": "hello"})
		if err != nil || !strings.Contains(string(raw), "hello") {
			return fmt.Errorf("%s: %w", raw, err)
		}
	}
	l.made.Add(1)
	return nil
}

// Clients call while the issuer changes its keys again and again. No call fails whose token is of
// a published key. What a key signed that is published no more is refused.
func TestOAuthKeysUnderLoad(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	external.Node22(t)
	m := newTeam(t, teamOptions{})
	d, _ := longTime(t)
	l := &load{team: m}
	end := time.Now().Add(d)
	var clients sync.WaitGroup
	for i, era := range []string{"", "legacy", "modern", ""} {
		user := []string{"ann", "bob"}[i%2]
		var c *session
		if era != "" {
			var err error
			if c, err = m.client(m.url, m.token(user), era); err != nil {
				t.Fatal(err)
			}
		}
		clients.Go(func() {
			for time.Now().Before(end) {
				if err := l.call(t, user, c); err != nil {
					t.Error(err)
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
		})
	}
	removed, rounds := m.key, 0
	for ; time.Now().Before(end); rounds++ {
		if rounds > 2 { // the router reads keys so often because of tokens whose key it does not know
			time.Sleep(10 * time.Second)
		}
		next := newKey(t)
		l.publish(t, next, m.key)
		l.key.Lock()
		m.key = next
		l.key.Unlock()
		time.Sleep(time.Second)
		l.publish(t, next)
	}
	clients.Wait()
	t.Logf("%d calls, %d changes of the key", l.made.Load(), rounds)
	if rounds == 0 || l.made.Load() == 0 {
		t.Error("there was no load")
	}
	old := *m
	old.key = removed
	mcptest.WaitFor(t, "tokens of a removed key to be refused", func() bool {
		code, _, _ := m.status(old.token("ann"))
		return code == http.StatusUnauthorized
	})
}

// publish replaces the keys of the issuer.
func (l *load) publish(t *testing.T, keys ...jose.JSONWebKey) {
	if err := l.issuer.SetKeys(keys...); err != nil {
		t.Error(err)
	}
}

// forgets checks that a token is refused within a minute from then.
func (m *team) forgets(t *testing.T, token string, from time.Time) {
	t.Helper()
	for {
		code, _, _ := m.status(token)
		took := time.Since(from)
		if code == http.StatusUnauthorized {
			t.Logf("a token that the router knew is refused after %s", took.Round(time.Second))
			return
		}
		if took > 65*time.Second { // with the time that the check itself takes
			t.Fatalf("after %s, a token that is no longer valid is still taken", took)
		}
		time.Sleep(time.Second)
	}
}

func (m *team) down(down bool) {
	m.t.Helper()
	if err := m.issuer.SetDown(down); err != nil {
		m.t.Fatal(err)
	}
}

// unknown checks that nobody can judge the token.
func (m *team) unknown(t *testing.T, token string) {
	t.Helper()
	code, header, body := m.status(token)
	if code != http.StatusServiceUnavailable || header.Get("Retry-After") == "" || header.Get("WWW-Authenticate") != "" {
		t.Errorf("a token that can't be judged: %d %v %s", code, header, body)
	}
}

// Tokens that are no JWTs are judged by the issuer.
func TestOAuthIntrospection(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	external.Node22(t)
	m := newTeam(t, teamOptions{opaque: true, rules: map[string]any{
		"introspect": true, "clientId": "resource-server", "clientSecret": "resource-secret",
	}})
	scopes := []string{"mcp:call", "mcp:admin"}
	ann, bob := m.logIn("ann", m.url, scopes...), m.logIn("bob", m.url, scopes...)
	for token, want := range map[string]string{ann: "quill__echo", bob: "kite__pid"} {
		if status, body := m.post(m.url+"/tools/list", bearer(token), ""); status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%d %s", status, body)
		}
	}
	used := time.Now()
	if status, body := m.post(m.url+"/tools/list", bearer(m.logIn("cid", m.url, scopes...)), ""); status != http.StatusForbidden {
		t.Errorf("no group: %d %s", status, body)
	}
	revoked := m.logIn("ann", m.url, scopes...)
	m.revoke(t, revoked)
	for name, token := range map[string]string{
		"of another path": m.logIn("ann", m.url+"/p/workbench", scopes...),
		"revoked":         revoked,
		"unknown":         "abc" + ann,
	} {
		t.Run(name, func(t *testing.T) { m.judges(t, token, "", http.StatusUnauthorized) })
	}
	m.judges(t, m.logIn("ann", m.url+"/p/workbench", scopes...), "/p/workbench", http.StatusOK)

	another := m.logIn("ann", m.url, scopes...)
	m.down(true)
	m.unknown(t, another)
	m.down(false)
	mcptest.WaitFor(t, "the issuer's tokens to work", func() bool {
		code, _, _ := m.status(another)
		return code == http.StatusOK
	})
	if _, long := longTime(t); long {
		m.revoke(t, ann)
		m.forgets(t, ann, used)
	}
}

// revoke revokes a token of a client that has no secret.
func (m *team) revoke(t *testing.T, token string) {
	t.Helper()
	form := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	body := "token=" + token + "&client_id=resource-server&client_secret=resource-secret"
	_, answer := m.post(m.issuer.URL+"/token/introspection", form, body)
	var about struct {
		Client string `json:"client_id"`
	}
	if err := json.Unmarshal([]byte(answer), &about); err != nil {
		t.Fatalf("%s: %v", answer, err)
	}
	if status, answer := m.post(m.issuer.URL+"/token/revocation", form, "token="+token+"&client_id="+about.Client); status != http.StatusOK {
		t.Fatalf("revoke: %d %s", status, answer)
	}
	if ok, err := m.issuer.Accepts(token, m.url); ok || err != nil {
		t.Fatalf("the revoked token is accepted: %v, %v", ok, err)
	}
}
