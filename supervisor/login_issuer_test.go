//go:build unix

package supervisor

import (
	"errors"
	"net/http"
	"testing"

	"go.uber.org/zap/zaptest"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/login"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/fakeissuer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// logIn logs in to the server as a person does.
func (f *fixture) logIn(logins *login.Logins, name string, scopes ...string) {
	f.t.Helper()
	s, err := f.LoginServer(f.t.Context(), name, "")
	expect.OK(f.t, err)
	pending, err := logins.Begin(f.t.Context(), login.Request{Server: s, Scopes: scopes})
	expect.OK(f.t, err)
	code, page, err := fakeissuer.Follow(f.t.Context(), pending.URL)
	if err != nil || code != http.StatusOK {
		f.t.Fatalf("the browser shows %d, %v\n%s", code, err, page)
	}
	expect.OK(f.t, pending.Wait(f.t.Context()))
}

// A server of a real issuer: a login of another program is noticed, the end of a login too, and
// a call that needs more scopes says so.
func TestLoginAtAnIssuer(t *testing.T) {
	issuer := fakeissuer.New(t, fakeissuer.Options{Rotate: true})
	resource := issuer.Protect(t, fakeissuer.Protection{ToolScopes: map[string]string{"say": "talk"}, Flags: []string{"-tools", "echo,say"}})
	folder := t.TempDir()
	open := func() *login.Logins {
		logins := login.New(login.Options{Store: login.NewStore(folder), Log: zaptest.NewLogger(t)})
		t.Cleanup(logins.Close)
		return logins
	}
	own, other := open(), open()
	entry := at(resource.URL, config.AutoHTTP)
	entry.Headers = nil
	f := superviseWith(t, t.TempDir(), func(v *Supervisor) { v.sources = sources(own) }, entry)
	if st := f.await("r", status.NeedsAuth); st.Fault.Login != status.NeverLoggedIn || st.Fault.Issuer != issuer.URL {
		t.Fatalf("%+v", st.Fault)
	}
	f.logIn(other, "r") // as the command does, in another process
	f.await("r", status.Ready)
	if got, err := f.call("r", "echo", `{"message":"hello"}`); err != nil {
		t.Errorf("%q, %v", got, err)
	}
	_, err := f.call("r", "say", `{"text":"hello"}`)
	needed, ok := errors.AsType[*login.NeededError](err)
	if !ok || needed.Why != status.ScopeMissing || len(needed.Scopes) != 1 || needed.Command() != "metarouter login r --scope talk" {
		t.Fatalf("%v", err)
	}
	f.logIn(own, "r", needed.Scopes...)
	if got, err := f.call("r", "say", `{"text":"hello"}`); err != nil {
		t.Errorf("%q, %v", got, err)
	}

	issuer.RevokeAll()
	if _, err := f.call("r", "echo", "{}"); err == nil {
		t.Error("a revoked login works")
	}
	if st := f.await("r", status.NeedsAuth); st.Fault.Login == "" {
		t.Errorf("%+v", st.Fault)
	}
	tokens := issuer.Counts().TokenRequests
	for range 5 {
		if _, err := f.call("r", "echo", "{}"); err == nil {
			t.Error("a revoked login works")
		}
	}
	expect.Equal(t, issuer.Counts().TokenRequests, tokens, "requests for tokens")
	f.logIn(own, "r")
	if got, err := f.call("r", "echo", "{}"); err != nil {
		t.Errorf("at once after a login: %q, %v", got, err)
	}
	mcptest.WaitFor(t, "the server to be ready", func() bool { return f.state("r").State == status.Ready })
}
