//go:build unix

package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/reference"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/vault"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/peer"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/resolve"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// values are the stored values of users.
type values map[string]string

func (v values) Get(_ context.Context, name string) (string, error) { return v[name], nil }

// A person is a client with a principal behind it.
type person struct {
	*client
	principal string
	claims    string
}

func (p person) Caller() session.Caller {
	return session.Caller{Principal: p.principal, Claims: p.claims}
}

// Every request of a user goes over the user's own session, with the user's own value, and what the server says outside of
// requests is for that user alone.
func TestUsersShareNothing(t *testing.T) {
	t.Parallel()
	for _, modern := range []bool{false, true} {
		srv := newFar(t, func(f *far) {
			f.modern = modern
			f.early = func(w http.ResponseWriter, v visit) bool {
				if !modern && v.m.Method == peer.Initialize {
					w.Header().Set("Mcp-Session-Id", "s-"+v.Header.Get("X-User"))
				}
				return false
			}
			f.answer = func(w http.ResponseWriter, v visit) bool {
				if v.m.ID == nil || v.m.Method == "tools/list" || v.m.Method == "ping" {
					return false
				}
				say(w, `data: {"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":%q}}`, "x:"+v.Header.Get("X-User"))
				say(w, `data: {"jsonrpc":"2.0","id":%s,"result":{"resultType":"complete","who":%q,"session":%q}}`, v.m.ID, v.Header.Get("X-User"), v.Header.Get("Mcp-Session-Id"))
				return true
			}
		})
		entry := at(srv.URL, config.StreamableHTTP)
		entry.Headers = map[string]string{"X-User": "${user:name}"}
		entry.References = []reference.Reference{{Text: "${user:name}", Kind: reference.User, Body: "name"}}
		var mu sync.Mutex
		heard := make(map[string]session.Client) // the owners of messages, by URI
		f := superviseWith(t, t.TempDir(), func(v *Supervisor) {
			v.resolver = resolve.New(values{vault.UserValue("ann", "name"): "ann", vault.UserValue("bob", "name"): "bob", vault.UserValue("", "name"): "local"}, nil)
			v.options.OnMessage = func(_ string, owner session.Client, m session.Message) {
				mu.Lock()
				defer mu.Unlock()
				heard[string(m.Params)] = owner
			}
		}, entry)
		f.await("r", status.Ready)
		if n, _ := f.listings("r"); n != 1 {
			t.Errorf("listed %d times, without a user", n)
		}
		users := map[string]session.Client{"ann": person{clientOf("a"), "ann", ""}, "bob": person{clientOf("b"), "bob", ""}, "local": person{clientOf("l"), "", ""}}
		for _, method := range []string{"tools/call", "prompts/get", "resources/read", "completion/complete", "tasks/get", "tasks/result", "tasks/cancel"} {
			for name, from := range users {
				s, err := f.Session(t.Context(), "r", from)
				expect.OK(t, err)
				raw, err := s.Call(t.Context(), session.Request{Method: method, Params: json.RawMessage(`{"name":"echo","uri":"x:y","taskId":"1"}`), From: from})
				expect.OK(t, err, "%s", method)
				var said struct{ Who, Session string }
				expect.OK(t, json.Unmarshal(raw, &said))
				if expect.Equal(t, said.Who, name, "%s of %s", method, name); !modern {
					expect.Equal(t, said.Session, "s-"+name, "%s of %s", method, name)
				}
			}
		}
		mu.Lock()
		for name, from := range users {
			for uri, owner := range heard {
				expect.Equal(t, session.Owns(owner, from), strings.Contains(uri, `"x:`+name+`"`), "%s gets %s", name, uri)
			}
		}
		expect.Equal(t, len(heard), len(users), "messages outside of requests")
		mu.Unlock()
		f.EndUser("ann")
		_, err := f.Session(t.Context(), "r", users["ann"])
		expect.OK(t, err)
		if begun := len(srv.seen(by("POST", peer.Initialize))); !modern && begun != 5 {
			t.Errorf("%d sessions, not one for the list, one for each user, and one more of ann", begun)
		}
	}
}

// More users than sessions fit: the sessions that are unused for longest end.
func TestManyUsers(t *testing.T) {
	t.Parallel()
	srv := newFar(t, func(f *far) { f.modern = true })
	entry := at(srv.URL, config.StreamableHTTP)
	entry.Headers, entry.PerUser = nil, true
	f := superviseWith(t, t.TempDir(), func(v *Supervisor) { v.sources = (&fakeLogin{token: "x"}).source }, entry)
	f.await("r", status.Ready)
	var all sync.WaitGroup
	for i := range maxClients + 50 {
		all.Go(func() {
			who := person{clientOf(fmt.Sprint(i)), fmt.Sprint(i), ""}
			s, err := f.Session(t.Context(), "r", who)
			if err == nil {
				_, err = s.Call(t.Context(), session.Request{Method: "tools/call", Params: json.RawMessage(`{"name":"echo"}`), From: who})
			}
			if err != nil && !strings.Contains(err.Error(), "100 clients") && !errors.Is(err, session.ErrNotSent) { // then it is sent again
				t.Errorf("user %d: %v", i, err)
			}
		})
	}
	all.Wait()
	for i := range maxClients {
		who := person{clientOf(fmt.Sprint(i)), fmt.Sprint("later ", i), ""}
		_, err := f.Session(t.Context(), "r", who)
		expect.OK(t, err)
	}
	if n := len(f.servers.get("r").pool.all()); n > maxClients {
		t.Errorf("%d sessions", n)
	}
}

// One user does not take all sessions of a server: theirs that is unused for longest ends, unless something needs it.
func TestSessionsOfOneUser(t *testing.T) {
	t.Parallel()
	srv := newFar(t, func(f *far) {
		f.answer = func(w http.ResponseWriter, v visit) bool {
			if v.m.Method == "resources/subscribe" {
				say(w, `data: {"jsonrpc":"2.0","id":%s,"result":{}}`, v.m.ID)
			}
			return v.m.Method == "resources/subscribe"
		}
	})
	entry := at(srv.URL, config.StreamableHTTP)
	entry.Headers, entry.PerUser = nil, true
	f := superviseWith(t, t.TempDir(), func(v *Supervisor) { v.sources = (&fakeLogin{token: "x"}).source }, entry)
	f.await("r", status.Ready)
	open := func(principal string, claims int) (*instance, error) {
		s, err := f.Session(t.Context(), "r", person{clientOf("c"), principal, fmt.Sprint(claims)})
		in, _ := s.(*instance)
		return in, err
	}
	pool := f.servers.get("r").pool
	for i := range 2 * maxOfUser {
		_, err := open("mallory", i)
		expect.OK(t, err)
	}
	expect.Equal(t, len(pool.all()), maxOfUser, "sessions of one user")
	for _, in := range pool.all() {
		_, err := in.Subscribe(t.Context(), "x:y")
		expect.OK(t, err)
	}
	_, err := open("mallory", -1)
	expect.Error(t, err, "5 of one user")
	for _, other := range []string{"ann", ""} {
		for i := range maxOfUser {
			_, err := open(other, i)
			expect.OK(t, err)
		}
	}
	_, err = open("", maxOfUser)
	expect.OK(t, err, "the local user, all of whose clients are one")
}

// The lists of a server whose users have sessions of their own are read again when they change, also if it starts at its first call.
func TestChangedListsOfUsers(t *testing.T) {
	for _, lazy := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			entry := fake("r", "-era", "legacy", "-tools", "grow")
			entry.PerUser, entry.Lazy = true, lazy
			f := supervise(t, entry)
			f.await("r", status.Ready)
			f.learner.mu.Lock()
			f.known["r"] = true
			f.learner.mu.Unlock()
			for i := range 4 {
				expect.OK(t, f.callToolAs(t.Context(), person{clientOf("a"), "ann", ""}, `{"name":"grow"}`))
				time.Sleep(2 * relistMax)
				n, _ := f.listings("r")
				expect.Equal(t, n, i+2, "listings after so many changes, lazy %t", lazy)
			}
		})
	}
}

// A server that gets a value of each user as its Authorization has no login.
func TestNoLoginBesideAuthorization(t *testing.T) {
	entry := at("http://127.0.0.1:1/mcp", config.StreamableHTTP)
	entry.Headers = map[string]string{"authorization": "${user:name}"}
	entry.References = []reference.Reference{{Text: "${user:name}", Kind: reference.User, Body: "name"}}
	_, err := superviseWith(t, t.TempDir(), func(*Supervisor) {}, entry).LoginServer(t.Context(), "r", "")
	expect.Error(t, err, `has an "Authorization" of its own`)
}
