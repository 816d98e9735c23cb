//go:build linux

package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/fakeissuer"
	"github.com/mcp-metarouter/metarouter/test/fakeserver"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// A browser is logged in to the router.
type browser struct {
	*http.Client
	t      *testing.T
	origin string
}

func (b browser) post(path string, form url.Values) (status int, page string) {
	b.t.Helper()
	q, err := http.NewRequestWithContext(within(b.t), http.MethodPost, b.origin+path, strings.NewReader(form.Encode()))
	expect.OK(b.t, err)
	q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	q.Header.Set("Origin", b.origin)
	response, err := b.Do(q)
	expect.OK(b.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	expect.OK(b.t, err)
	return response.StatusCode, string(text)
}

// open opens a URL, and returns the page at the end of all redirects.
func (b browser) open(address string) string {
	b.t.Helper()
	response, err := b.Get(address)
	expect.OK(b.t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	expect.OK(b.t, err)
	return string(text)
}

// Users of a router are themselves at remote servers, in both eras and over stdio: by logins and by keys of their own.
func TestUsers(t *testing.T) {
	layer.Integration(t)
	issuer := fakeissuer.New(t, fakeissuer.Options{})
	resource := issuer.Protect(t, fakeissuer.Protection{Flags: []string{"-tools", "headers"}})
	keyed := httptest.NewServer(fakeserver.Handler("-tools", "headers"))
	t.Cleanup(keyed.Close)
	address := mcptest.FreeAddress(t)
	m := &team{origin: "http://" + address, url: "http://" + address + "/mcp"}
	m.setup = prepare(t, entries{
		"remote": {"url": resource.URL, "credentials": "user"},
		"keyed":  {"url": keyed.URL, "headers": map[string]string{"X-Account": "${user:key}"}},
	}, map[string]any{"mode": "direct", "listWait": "1m", "http": map[string]any{"publicUrl": m.origin, "tokens": []map[string]any{
		{"token": "token-of-ann", "name": "ann", "role": "use"}, {"token": "token-of-bob", "name": "bob", "role": "use"}, {"token": adminToken, "name": "root", "role": "admin"},
	}}})
	m.home, m.env = t.TempDir(), []string{"METAROUTER_KEYRING=off"}
	c := m.begin("login", "remote", "--no-browser")
	follow(t, fakeissuer.As("the local account", c.line()))
	wantText(t, "login", c.succeed(), "it has 1 tool")
	m.serveAt(address)

	for _, name := range []string{"ann", "bob"} {
		jar, err := cookiejar.New(nil)
		expect.OK(t, err)
		b := browser{&http.Client{Jar: jar}, t, m.origin}
		for _, era := range []string{"legacy", "modern"} {
			s, err := m.client("token-of-"+name, era)
			expect.OK(t, err)
			if era == "legacy" {
				said := whoami(t, s, "remote")
				wantText(t, "without a login", said, "needs a login", "for you alone")
				page := fakeissuer.As(name+"'s account", regexp.MustCompile(`http\S+/authorize\S+`).FindString(said))
				if shown := b.open(page); !strings.Contains(shown, "This browser has no session") && !strings.Contains(shown, "Logging in") {
					t.Errorf("a browser without a session: %s", shown)
				}
				said = whoami(t, s, "keyed")
				wantText(t, "without a value", said, "your value key is not set", "/account")
				if status, shown := b.post("/login", url.Values{"token": {"token-of-" + name}}); status != 200 || !strings.Contains(shown, "You are logged in as "+name) {
					t.Fatalf("%d %s", status, shown)
				}
				wantText(t, "the callback", b.open(page), "Logged in to remote")
				if status, shown := b.post("/account", url.Values{"name": {"key"}, "value": {name + "'s key"}}); status != 200 || !strings.Contains(shown, "set; save nothing") {
					t.Errorf("%d %s", status, shown)
				}
				wantText(t, "the dashboard", b.open(m.origin+"/"), "which may use tools at /mcp and not this page")
			}
			expect.Equal(t, whoami(t, s, "remote"), name+"'s account", "%s", era)
			expect.Equal(t, whoami(t, s, "keyed"), name+"'s key", "%s", era)
		}
	}
	local := &session{client: m.serve()}
	expect.Equal(t, whoami(t, local, "remote"), "the local account")
	wantText(t, "without a value", whoami(t, local, "keyed"), "metarouter secret set key --user")

	held := func() (users []string) {
		out, errs, code := m.run("logins", "--json")
		expect.Equal(t, code, 0, "%s", errs)
		var all []struct{ Server, User string }
		expect.OK(t, json.Unmarshal([]byte(out), &all))
		for _, h := range all {
			users = append(users, h.User)
		}
		slices.Sort(users)
		return users
	}
	expect.List(t, held(), []string{"", "ann", "bob"}, "users who are logged in")
	if _, errs, code := m.run("logout", "remote", "--user", "bob"); code != 0 {
		t.Errorf("logout: %s", errs)
	}
	expect.List(t, held(), []string{"", "ann"}, "users who are logged in")
	for name, want := range map[string]string{"ann": "ann's account", "bob": "needs a login"} {
		s, err := m.client("token-of-"+name, "modern")
		expect.OK(t, err)
		wantText(t, name, whoami(t, s, "remote"), want)
	}
}

// whoami returns the account for which a server of headers gets calls, or what it says instead.
func whoami(t *testing.T, s *session, server string) string {
	t.Helper()
	raw, err := s.call(within(t), server+"__headers", map[string]any{})
	expect.OK(t, err)
	var result struct{ Content []struct{ Text string } }
	expect.OK(t, json.Unmarshal(raw, &result))
	_, account, ok := strings.Cut(result.Content[0].Text, "X-Account: ")
	if !ok {
		return result.Content[0].Text
	}
	account, _, _ = strings.Cut(account, "\n")
	return account
}
