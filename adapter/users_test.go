package adapter

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/login"
	"github.com/mcp-metarouter/metarouter/internal/reference"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/fakeissuer"
	"github.com/mcp-metarouter/metarouter/test/fakeserver"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// whoami asks the server who calls it.
func whoami(t *testing.T, r *Router, from session.Client) string {
	t.Helper()
	tool := &registry.NormalizedTool{ID: registry.ID("s", "headers"), Server: "s", Name: "headers", InputSchema: json.RawMessage(`{"type":"object"}`), Definition: json.RawMessage(`{"name":"headers","inputSchema":{"type":"object"}}`)}
	result, err := r.View.Execute(t.Context(), selector.Call{Tool: tool, Arguments: json.RawMessage(`{}`), From: from})
	if err != nil {
		return err.Error()
	}
	_, account, ok := strings.Cut(result.Text(), "X-Account: ")
	if !ok {
		return result.Text()
	}
	account, _, _ = strings.Cut(account, "\n")
	return account
}

// choosing plays a person who logs in with the account. The login comes back in the browser session of by.
func choosing(t *testing.T, r *Router, account, by string) func(context.Context, json.RawMessage) (string, error) {
	return func(_ context.Context, params json.RawMessage) (string, error) {
		expect.Contains(t, string(params), "for you alone", "asked %s", params)
		go func() {
			back, err := fakeissuer.Redirected(t.Context(), fakeissuer.As(account, wire.Text(params, "url")))
			if err != nil {
				t.Error(err)
				return
			}
			at, _ := url.Parse(back)
			for _, other := range []string{"someone else", by} { // only the browser of the principal completes it
				_, err := r.Logins().Callback(t.Context(), other, at.RawQuery)
				expect.Equal(t, err == nil, other == by, "in the browser of %s: %v", other, err)
			}
		}()
		return "accept", nil
	}
}

// Each user of the router is who they are at a server with "credentials": "user".
func TestEachUserHasTheirOwnLogin(t *testing.T) {
	r, _, _ := protected(t, func(c *config.Config) {
		c.Servers[0].PerUser = true
		c.Router.HTTP.PublicURL, c.Router.LoginTimeout = "https://tools.example.com", 30*24*time.Hour
	})
	of := func(name string, modern bool) *caller {
		c := &caller{who: session.Caller{Principal: name, Name: name, OverHTTP: true}, modern: modern, told: make(chan string, 10)}
		c.ask = choosing(t, r, name+"'s account", name)
		return c
	}
	ann, bob := of("ann", true), of("bob", true)
	for range 2 { // the second call needs no login
		expect.Equal(t, whoami(t, r, ann), "ann's account")
	}
	expect.Equal(t, whoami(t, r, bob), "bob's account")
	expect.Equal(t, whoami(t, r, of("ann", false)), "ann's account")
	expect.Contains(t, whoami(t, r, of("eve", false)), "The login is for you alone")
	wordy := of("eve", true)
	wordy.capabilities = "{}"
	if said := whoami(t, r, wordy); !strings.Contains(said, "/authorize?") || strings.Contains(said, "metarouter login") {
		t.Errorf("a user is told of the router's own user's login: %s", said)
	}
	waiting, _ := statusOf(r.accounts.supervisor, "s")
	expect.Equal(t, len(r.Tools()), 0, "tools that are listed with a user's login")
	expect.Contains(t, waiting.LastError, "the router's own user")
	helps, why := r.View.LogIn(t.Context(), ann, r.View.Await(t.Context(), "s"))
	if !helps || why == nil || !strings.Contains(why.Error(), "to run 'metarouter login s' on its machine") {
		t.Errorf("a user, of tools that are not listed: %t, %v", helps, why)
	}
	stdio := &caller{who: local, modern: true, ask: func(_ context.Context, params json.RawMessage) (string, error) {
		go fakeissuer.Follow(t.Context(), fakeissuer.As("the local account", wire.Text(params, "url")))
		return "accept", nil
	}}
	expect.Equal(t, whoami(t, r, stdio), "the local account")
	mcptest.WaitFor(t, "the tools to be listed", func() bool { return len(r.Tools()) > 0 })

	held := func() (users []string) {
		all, err := r.Logins().All(t.Context())
		expect.OK(t, err)
		for _, h := range all {
			users = append(users, h.User)
		}
		return users
	}
	expect.List(t, held(), []string{"", "ann", "bob"}, "users who are logged in")
	was, err := r.Logout(t.Context(), "s", "ann")
	if !was || err != nil {
		t.Errorf("logout: %t, %v", was, err)
	}
	expect.Equal(t, whoami(t, r, bob), "bob's account")
	ann.ask = choosing(t, r, "another account", "ann")
	expect.Equal(t, whoami(t, r, ann), "another account", "after a logout and a login")
	expect.Equal(t, whoami(t, r, stdio), "the local account")

	if err := r.EndLogin(t.Context(), "s", "eve"); err == nil {
		t.Error("a login that does not exist has ended")
	}
	expect.OK(t, r.EndLogin(t.Context(), "s", "bob"))
	expect.List(t, held(), []string{"", "ann"}, "users after the end of a login")
	r.accounts.sweep(t.Context(), zaptest.NewLogger(t), time.Now().Add(time.Hour))
	expect.List(t, held(), []string{"", "ann"}, "users before the timeout")
	r.accounts.sweep(t.Context(), zaptest.NewLogger(t), time.Now().Add(31*24*time.Hour))
	expect.List(t, held(), []string{""}, "users after the timeout")
}

// Many users log in, call, and log out or are logged out, while tokens expire: no one is ever someone else.
func TestUsersRace(t *testing.T) {
	r, issuer, _ := protected(t, func(c *config.Config) {
		c.Servers[0].PerUser = true
		c.Router.HTTP.PublicURL = "https://tools.example.com"
	})
	issuer.Change(func(o *fakeissuer.Options) { o.Life, o.Rotate = 2*time.Second, true })
	users, rounds := 50, 4
	if testing.Short() {
		users, rounds = 10, 3
	}
	var all sync.WaitGroup
	for i := range users {
		all.Go(func() {
			name := fmt.Sprintf("user %d", i)
			for round := range rounds {
				account := fmt.Sprintf("account %d of %d", round, i)
				from := &caller{who: session.Caller{Principal: name, Name: name, OverHTTP: true}, modern: i%2 == 0, told: make(chan string, 10)}
				from.ask = choosing(t, r, account, name)
				for range 3 {
					said := whoami(t, r, from)
					if strings.Contains(said, "for you alone") && !from.modern { // the next login is made as a modern client
						from.modern = true
					} else if said != account {
						t.Errorf("%s is %q, want %q", name, said, account)
					}
				}
				var err error
				if i%3 == 0 {
					err = r.EndLogin(t.Context(), "s", name)
				} else {
					_, err = r.Logout(t.Context(), "s", name)
				}
				expect.OK(t, err)
			}
		})
	}
	all.Wait()
	held, err := r.Logins().All(t.Context())
	expect.OK(t, err)
	expect.Equal(t, len(held), 0, "logins at the end")
	expect.Equal(t, issuer.Counts().Authorizations, users*rounds, "logins")
}

// Requests to a server have the values of their user.
func TestUserValuesInHeaders(t *testing.T) {
	own := t.TempDir()
	t.Setenv("HOME", own)
	t.Setenv("XDG_CONFIG_HOME", own)
	t.Setenv("METAROUTER_KEYRING", "off")
	server := httptest.NewServer(fakeserver.Handler("-tools", "headers"))
	t.Cleanup(server.Close)
	r, _ := runningWith(t, config.Config{Servers: []config.Server{{
		Name: "s", Transport: config.StreamableHTTP, URL: server.URL, StartTimeout: 30 * time.Second,
		Headers: map[string]string{"X-Account": "${user:key}", "X-Employee": "no. ${claim:employee}"},
		References: []reference.Reference{
			{Text: "${user:key}", Kind: reference.User, Body: "key"}, {Text: "${claim:employee}", Kind: reference.Claim, Body: "employee"},
		},
	}}, Router: config.Router{Profiles: map[string]config.Profile{
		"others": {Servers: []string{"o*"}}, "one": {Servers: []string{"s"}},
	}}}, Options{})
	settled(t, r)
	expect.Equal(t, len(r.Tools()), 1, "tools, which are listed without the headers")
	of := func(name, claims string) *caller {
		return &caller{who: session.Caller{Principal: name, Claims: claims, OverHTTP: true}}
	}
	ann, bob := of("ann", `{"employee":"7"}`), of("bob", `{"employee":"8"}`)
	expect.Contains(t, whoami(t, r, ann), "your value key is not set; open /account")
	for name, value := range map[string]string{"ann": "ann's key", "bob": "bob's key", "": "the local key"} {
		expect.OK(t, r.SetUserValue(t.Context(), name, "", "key", value))
	}
	for name, value := range map[string]string{"other": "x", "key": "x\r\nX-Role: admin"} {
		if err := r.SetUserValue(t.Context(), "ann", "", name, value); err == nil {
			t.Errorf("the value %s is set to %q", name, value)
		}
	}
	for range 2 {
		expect.Equal(t, whoami(t, r, ann), "ann's key")
		expect.Equal(t, whoami(t, r, bob), "bob's key")
	}
	for _, none := range []*caller{{who: local}, of("ann", `{"employee":""}`)} {
		expect.Contains(t, whoami(t, r, none), `your access token has no claim "employee"`)
	}
	for profile, want := range map[string]map[string]bool{"": {"key": false}, "others|one": {"key": false}, "others": {}} {
		set, err := r.UserValues(t.Context(), "eve", profile)
		expect.OK(t, err)
		expect.Deep(t, set, want, "%s", profile)
	}
	expect.OK(t, r.SetUserValue(t.Context(), "ann", "", "key", "another key"))
	expect.Equal(t, whoami(t, r, ann), "another key", "at once")
	expect.OK(t, r.SetUserValue(t.Context(), "ann", "", "key", ""))
	expect.Contains(t, whoami(t, r, ann), "your value key is not set")
	expect.Equal(t, whoami(t, r, bob), "bob's key")
}

// A user's login ends though the entry is another one by now, or gone. No one else's login does, and no user logs in for all.
func TestLoginsOfUsersOutliveEntries(t *testing.T) {
	shared := func(s *config.Server) {
		s.PerUser, s.Headers = false, map[string]string{"X-Key": "${user:key}"}
		s.References = []reference.Reference{{Text: "${user:key}", Kind: reference.User, Body: "key"}}
	}
	for name, test := range map[string]struct {
		server string
		edit   func(*config.Server)
	}{
		"shared":      {"s", shared},
		"another URL": {"s", func(s *config.Server) { s.URL += "?v=2" }},
		"renamed":     {"later", func(s *config.Server) { s.Name = "later" }},
		"old name":    {"s", func(s *config.Server) { s.Name = "later" }},
	} {
		var c config.Config
		r, edits, _, _ := editable(t, func(now *config.Config) {
			now.Servers[0].PerUser = true
			now.Router.HTTP.PublicURL, now.Router.LoginTimeout = "https://tools.example.com", 30*24*time.Hour
			c = *now
		})
		users := make(map[string]*caller)
		for _, user := range []string{"ann", "bob"} {
			users[user] = &caller{who: session.Caller{Principal: user, Name: user, OverHTTP: true}, modern: true}
			users[user].ask = choosing(t, r, user+"'s account", user)
			expect.Equal(t, whoami(t, r, users[user]), user+"'s account")
		}
		stdio := &caller{who: local, modern: true, ask: func(_ context.Context, params json.RawMessage) (string, error) {
			go fakeissuer.Follow(t.Context(), fakeissuer.As("the local account", wire.Text(params, "url")))
			return "accept", nil
		}}
		expect.Equal(t, whoami(t, r, stdio), "the local account")
		c.Servers = slices.Clone(c.Servers)
		test.edit(&c.Servers[0])
		edits <- c
		mcptest.WaitFor(t, "the edit", func() bool {
			now, err := r.accounts.supervisor.LoginServer(t.Context(), c.Servers[0].Name, "ann")
			return err == nil && now.URL == c.Servers[0].URL && (now.Principal != "") == c.Servers[0].PerUser
		})
		held := func() (users string) {
			all, err := r.Logins().All(t.Context())
			expect.OK(t, err)
			for _, h := range all {
				users += h.User + ";"
			}
			return users
		}
		expect.OK(t, r.EndLogin(t.Context(), test.server, "ann"), "%s", name)
		expect.Equal(t, held(), ";bob;", "%s", name)
		if err := r.EndLogin(t.Context(), test.server, "ann"); err == nil {
			t.Errorf("%s: a login ends twice", name)
		}
		r.accounts.sweep(t.Context(), zaptest.NewLogger(t), time.Now().Add(31*24*time.Hour))
		expect.Equal(t, held(), ";", "%s: after the timeout", name)
		if name == "shared" {
			_, err := r.Logout(t.Context(), "s", "")
			expect.OK(t, err)
			expect.OK(t, r.SetUserValue(t.Context(), "ann", "", "key", "ann's key"))
			expect.Contains(t, whoami(t, r, users["ann"]), "Ask the administrator")
			_, err = r.BeginLogin(t.Context(), "s", login.Request{By: "ann", Own: true})
			if err == nil {
				t.Error("a user logs in for all")
			}
		}
	}
}
