//go:build linux

package e2e

import (
	"io/fs"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/fakeissuer"
	"github.com/mcp-metarouter/metarouter/test/fakeserver"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// Users of an issuer are themselves at a remote server that takes its tokens, by token exchange, and at one that gets a claim. Who has
// no token of the issuer is refused, and neither token is in a log, a message or a file.
func TestExchange(t *testing.T) {
	layer.Integration(t)
	issuer := fakeissuer.New(t, fakeissuer.Options{Clients: map[string]string{"router": "secret-of-router"}})
	resource := issuer.Protect(t, fakeissuer.Protection{Flags: []string{"-tools", "headers"}})
	issuer.Change(func(o *fakeissuer.Options) { o.Audience = resource.URL })
	claimed := httptest.NewServer(fakeserver.Handler("-tools", "headers"))
	t.Cleanup(claimed.Close)
	address := mcptest.FreeAddress(t)
	m := &team{origin: "http://" + address, url: "http://" + address + "/mcp", issuer: issuer.URL, signer: issuer}
	other := issuer.Protect(t, fakeissuer.Protection{Flags: []string{"-tools", "headers,echo"}})
	remote := func(at, audience string) map[string]any {
		return map[string]any{
			"url": at, "credentials": "user", "exchange": map[string]any{"audience": audience, "scope": "files read"},
			"oauth": map[string]any{"grant": "client_credentials", "clientId": "router", "clientSecret": "secret-of-router"},
		}
	}
	kept := issuer.Protect(t, fakeissuer.Protection{Flags: []string{"-tools", "headers"}, AnyToken: true})
	cached, long := remote(kept.URL, resource.URL), remote(kept.URL, resource.URL)
	cached["cache"], long["maxResultTokens"] = "1h", 20
	m.setup = prepare(t, entries{
		"cached":  cached,
		"long":    long,
		"remote":  remote(resource.URL, resource.URL),
		"wrong":   remote(other.URL, other.URL),
		"claimed": {"url": claimed.URL, "headers": map[string]string{"X-Account": "${claim:realm.employee}"}},
	}, map[string]any{"mode": "direct", "listWait": "1m", "profiles": map[string]any{"all": map[string]any{}}, "http": map[string]any{
		"publicUrl": m.origin, "tokens": []map[string]any{{"token": adminToken, "name": "root", "role": "admin"}},
		"oauth": map[string]any{"issuers": []any{map[string]any{
			"url": issuer.URL, "profiles": map[string]any{"*": "all"}, "clientId": "router", "clientSecret": "secret-of-router",
		}}},
	}})
	m.home = t.TempDir()
	m.router = m.serveAt(address, "--log-level", "debug")

	client := func(token, era string) *session {
		t.Helper()
		s, err := m.client(token, era)
		expect.OK(t, err)
		return s
	}
	exchanges := 0
	exchanged := func(more int, why string) {
		t.Helper()
		exchanges += more
		expect.Equal(t, issuer.Counts().Exchanges, exchanges, "exchanges: %s", why)
	}
	for _, name := range []string{"ann", "bob"} {
		token := m.token(name, "realm", map[string]any{"employee": "employee " + name})
		for _, era := range []string{"legacy", "modern"} {
			s := client(token, era)
			for range 2 {
				expect.Equal(t, whoami(t, s, "remote"), name, "%s", era)
				expect.Equal(t, whoami(t, s, "claimed"), "employee "+name, "%s", era)
			}
		}
		exchanged(1, "one for all calls with a token")
	}
	s := client(m.token("ann"), "legacy")
	wantText(t, "without the claim", whoami(t, s, "claimed"), `your access token has no claim "realm.employee"`)
	expect.Equal(t, whoami(t, s, "remote"), "ann")
	exchanged(1, "another token of ann")
	issuer.ForgetAccess()
	expect.Equal(t, whoami(t, s, "remote"), "ann")
	exchanged(1, "after a refusal")

	ann, bob := client(m.token("ann"), "legacy"), client(m.token("bob"), "legacy")
	for name, s := range map[string]*session{"ann": ann, "bob": bob} {
		expect.Equal(t, whoami(t, s, "cached"), name)
		again, err := s.call(within(t), "cached__headers", map[string]any{})
		expect.OK(t, err)
		wantText(t, "cached", string(again), "X-Account: "+name, `"cached":true`)
	}
	exchanged(2, "tokens of two users")
	for _, era := range []string{"legacy", "modern"} {
		ann, bob := client(m.token("ann"), era), client(m.token("bob"), era)
		said, err := ann.call(within(t), "long__headers", map[string]any{})
		expect.OK(t, err)
		uri := regexp.MustCompile(`metarouter-result:[^\\"]+`).FindString(string(said))
		rest := map[string]any{"uri": uri}
		read := func(s *session) string {
			raw, err := s.call(within(t), "read_result", rest)
			expect.OK(t, err)
			return string(raw)
		}
		expect.Contains(t, read(ann), "X-Account: ann", "%s", era)
		if stolen := read(bob); strings.Contains(stolen, "ann") || !strings.Contains(stolen, `"isError":true`) {
			t.Errorf("%s: the kept result of another user: %s", era, stolen)
		}
	}
	exchanges = issuer.Counts().Exchanges
	s.client.(*mcptest.HTTPClient).Header = bearer(m.token("ann"))
	expect.Equal(t, whoami(t, s, "remote"), "ann")
	exchanged(1, "a session goes on with another token")

	for who, s := range map[string]*session{"a stdio client": {client: m.serve()}, "a fixed token": client(adminToken, "modern")} {
		wantText(t, who, whoami(t, s, "remote"), `server "remote" needs a token: it takes tokens that are issued in exchange .* you have none: stdio clients`)
	}
	wantText(t, "another audience", whoami(t, s, "wrong"), `get a token from http://\S+ in exchange for yours: it refuses with invalid_target "the grant is refused"; an administrator must correct "exchange"`)
	exchanged(1, "refused")
	issuer.Change(func(o *fakeissuer.Options) { o.Revoked = map[string]bool{"ann": true} })
	wantText(t, "a revoked user", whoami(t, client(m.token("ann"), "modern"), "remote"), `it refuses with invalid_grant .*; log in to the issuer again`)
	expect.Equal(t, whoami(t, client(m.token("bob"), "modern"), "remote"), "bob")

	said := m.router.Stderr()
	for _, folder := range []string{m.dir, m.home} {
		expect.OK(t, filepath.WalkDir(folder, func(path string, of fs.DirEntry, err error) error {
			if err == nil && of.Type().IsRegular() && path != m.config {
				text, _ := os.ReadFile(path)
				said += string(text)
			}
			return nil // some are gone
		}))
	}
	for _, secret := range []string{"access-", "eyJ", "secret-of-router"} {
		expect.Equal(t, strings.Contains(said, secret), false, "the log or a file has %s", secret)
	}
	wantText(t, "the log", said, "opened a session next to the shared one")
}
