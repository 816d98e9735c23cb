//go:build unix

package supervisor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/login"
	"github.com/mcp-metarouter/metarouter/internal/oauth"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/peer"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// A fakeLogin is the login at one server.
type fakeLogin struct {
	mu      sync.Mutex // guards the fields below
	token   string
	why     status.LoginReason // of refusals
	changed signal.Change
	asked   []oauth.Server // for whom there are sources
}

func (l *fakeLogin) source(s oauth.Server) source {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = append(l.asked, s)
	return l
}

func (l *fakeLogin) Token(context.Context) (string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.token, nil
}

func (l *fakeLogin) Refused(_ context.Context, token string, _ *http.Response) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if token != l.token {
		return nil
	}
	return &login.NeededError{Server: "r", Why: l.why, Issuer: "https://issuer.example"}
}

func (l *fakeLogin) Login(context.Context) (string, error) { return "", nil }

func (l *fakeLogin) Permit(context.Context, string) error { return nil }

func (l *fakeLogin) Changed(context.Context) <-chan struct{} { return l.changed.Next() }

// set makes another login, whose token is refused because of why if it is.
func (l *fakeLogin) set(token string, why status.LoginReason) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.token, l.why = token, why
}

// superviseLogins runs a supervisor whose servers share the login.
func superviseLogins(t *testing.T, l *fakeLogin, entries ...config.Server) *fixture {
	return superviseWith(t, t.TempDir(), func(v *Supervisor) { v.sources = l.source }, entries...)
}

// newProtected returns a server that wants the token valid, and an entry for it.
func newProtected(t *testing.T, valid func() string) (*far, config.Server) {
	srv := newFar(t, func(f *far) {
		f.early = func(w http.ResponseWriter, v visit) bool {
			switch got := v.Header.Get("Authorization"); {
			case got != "Bearer "+valid():
				w.Header().Set("WWW-Authenticate", "Bearer")
				http.Error(w, "bad "+got, http.StatusUnauthorized)
			case strings.Contains(string(v.m.Params), "forbidden"):
				w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope", scope="more"`)
				w.WriteHeader(http.StatusForbidden)
			case strings.Contains(string(v.m.Params), "echo-http"):
				http.Error(w, "you said "+got, http.StatusTeapot)
			case strings.Contains(string(v.m.Params), "echo-rpc"):
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32603,"message":"you said %s"}}`, v.m.ID, got)
			case strings.Contains(string(v.m.Params), "echo-result"):
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"you said %s"}]}}`, v.m.ID, got)
			case strings.Contains(string(v.m.Params), "echo-stream"):
				w.Header().Set("Content-Type", "text/event-stream")
				fmt.Fprintf(w, "id: %s\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"you said %s\"}]}}\n\n", got, v.m.ID, got)
			default:
				return false
			}
			return true
		}
	})
	entry := at(srv.URL, config.StreamableHTTP)
	entry.Headers = nil
	return srv, entry
}

func all(visit) bool { return true }

// A server that needs a login waits for it, asks nobody meanwhile, and is there at once when a
// person has logged in.
func TestLoginIsAwaited(t *testing.T) {
	t.Parallel()
	for _, heard := range []bool{true, false} { // of the login, before a call comes
		t.Run(fmt.Sprint(heard), func(t *testing.T) {
			t.Parallel()
			l := &fakeLogin{why: status.NeverLoggedIn}
			srv, entry := newProtected(t, func() string { return "token-of-ann" })
			f := superviseLogins(t, l, entry)
			st := f.await("r", status.NeedsAuth)
			if want := "nobody has logged in to it yet; run: metarouter login r"; st.LastError != want || st.Verb() != "needs a login" {
				t.Errorf("%s: %q, want %q", st.Verb(), st.LastError, want)
			}
			if st.Fault.Login != status.NeverLoggedIn || st.Fault.Issuer != "https://issuer.example" || st.Fault.Kind != status.Unauthorized {
				t.Errorf("%+v", st.Fault)
			}
			asked := len(srv.seen(all))
			for range 3 {
				_, err := f.call("r", "echo", "{}")
				e, ok := errors.AsType[*status.UnavailableError](err)
				if !ok || e.Login != status.NeverLoggedIn || !errors.Is(err, session.ErrNotSent) || strings.Count(err.Error(), "needs a login") != 1 {
					t.Errorf("%v", err)
				}
				f.Wake("r")
			}
			expect.Equal(t, len(srv.seen(all)), asked, "requests, with those without a login")
			l.set("token-of-ann", status.TokenRejected)
			if heard {
				l.changed.Notify()
				f.await("r", status.Ready)
			}
			if got, err := f.call("r", "echo", "{}"); got != "called" {
				t.Errorf("%q, %v", got, err)
			}
			if n := f.state("r").Restarts; heard && n > 1 {
				t.Errorf("%d restarts", n)
			}
		})
	}
}

// When the token of a ready server is refused for good, the server needs a login: it is not
// started again and again.
func TestLoginEnds(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	valid := "token-one"
	srv, entry := newProtected(t, func() string { mu.Lock(); defer mu.Unlock(); return valid })
	l := &fakeLogin{token: "token-one", why: status.LoginExpired}
	f := superviseLogins(t, l, entry)
	f.await("r", status.Ready)
	mu.Lock()
	valid = "token-two"
	mu.Unlock()
	_, err := f.call("r", "echo", "{}")
	if needed, ok := errors.AsType[*login.NeededError](err); !ok || needed.Why != status.LoginExpired || !errors.Is(err, session.ErrNotSent) {
		t.Errorf("the call: %v", err)
	}
	if st := f.await("r", status.NeedsAuth); st.Fault.Login != status.LoginExpired {
		t.Errorf("%+v", st.Fault)
	}
	asked := len(srv.seen(all))
	if _, err := f.call("r", "echo", "{}"); err == nil || len(srv.seen(all)) != asked {
		t.Errorf("%v, %d requests more", err, len(srv.seen(all))-asked)
	}
	if n := len(srv.seen(by("POST", peer.Discover))); n > 1 {
		t.Errorf("%d starts", n)
	}
	l.set("token-two", "")
	l.changed.Notify()
	f.await("r", status.Ready)
}

// What a login does not permit concerns that call alone.
func TestLoginOfOneCall(t *testing.T) {
	t.Parallel()
	l := &fakeLogin{token: "token-one", why: status.ScopeMissing}
	_, entry := newProtected(t, func() string { return "token-one" })
	f := superviseLogins(t, l, entry)
	f.await("r", status.Ready)
	_, err := f.call("r", "forbidden", "{}")
	if needed, ok := errors.AsType[*login.NeededError](err); !ok || needed.Why != status.ScopeMissing || !errors.Is(err, session.ErrNotSent) {
		t.Errorf("the call: %v", err)
	}
	if got, err := f.call("r", "echo", "{}"); got != "called" || f.state("r").State != status.Ready {
		t.Errorf("%q, %v; the server is %s", got, err, f.state("r").State)
	}
}

// An issuer that can't be reached is asked again because of calls and as time passes.
func TestIssuerIsTriedAgain(t *testing.T) {
	t.Parallel()
	l := &fakeLogin{why: status.IssuerUnreachable}
	_, entry := newProtected(t, func() string { return "token-one" })
	f := superviseLogins(t, l, entry)
	st := f.await("r", status.NeedsAuth)
	if !strings.HasSuffix(st.LastError, "it is tried again with the next call") || waitsForLogin(st) {
		t.Errorf("%q", st.LastError)
	}
}

// A server that quotes its token tells nobody.
func TestTokenIsHidden(t *testing.T) {
	t.Parallel()
	const secret = "long-token-of-ann"
	l := &fakeLogin{token: secret}
	_, entry := newProtected(t, func() string { return secret })
	var noted atomic.Int32
	f := superviseWith(t, t.TempDir(), func(v *Supervisor) {
		v.sources = l.source
		v.options.OnToken = func(token string) {
			if noted.Add(1); token != secret {
				t.Errorf("noted %q", token)
			}
		}
	}, entry)
	f.await("r", status.Ready)
	for _, tool := range []string{"echo-http", "echo-rpc"} {
		if _, err := f.call("r", tool, "{}"); err == nil || strings.Contains(err.Error(), secret) || !strings.Contains(err.Error(), "you said Bearer ${token of its login}") {
			t.Errorf("%s: %v", tool, err)
		}
	}
	for _, tool := range []string{"echo-result", "echo-stream"} {
		if got, err := f.call("r", tool, "{}"); err != nil || got != "you said Bearer ${token of its login}" {
			t.Errorf("%s: %q, %v", tool, got, err)
		}
	}
	f.stop()
	expect.Equal(t, noted.Load(), 1, "the token was noted … times")
	for _, line := range f.logged.All() {
		expect.Equal(t, strings.Contains(fmt.Sprint(line.Message, line.ContextMap()), secret), false, "logged: %v", line)
	}
}

// A process gets no token, and nothing of "oauth".
func TestProcessGetsNoToken(t *testing.T) {
	t.Parallel()
	l := &fakeLogin{token: "token-of-ann"}
	entry := fake("r", "-tools", "env")
	entry.OAuth = &config.OAuth{ClientID: "client-of-ann", ClientSecret: "hunter2hunter2"}
	f := superviseLogins(t, l, entry)
	env := f.mustCall("r", "env", "{}")
	for _, secret := range []string{"token-of-ann", "client-of-ann", "hunter2hunter2"} {
		if env == "" || strings.Contains(env, secret) {
			t.Errorf("its environment has %s", secret)
		}
	}
	expect.Equal(t, len(l.asked), 0, "its tokens were asked for … times")
}

// An entry that is edited to one that needs a login waits for it: the one before does not
// come back.
func TestEditNeedsLogin(t *testing.T) {
	t.Parallel()
	l := &fakeLogin{why: status.NeverLoggedIn}
	open := newFar(t, func(*far) {})
	_, entry := newProtected(t, func() string { return "token-one" })
	before := at(open.URL, config.StreamableHTTP)
	before.Headers = nil
	f := superviseLogins(t, l, before)
	f.await("r", status.Ready)
	f.apply(entry)
	if st := f.await("r", status.NeedsAuth); st.Reverted {
		t.Errorf("%+v", st)
	}
	// Another client ID may get what this one does not.
	edited := entry
	edited.OAuth = &config.OAuth{ClientID: "other", Scopes: []string{"a"}, NoResource: true}
	l.set("token-one", "")
	f.apply(edited)
	f.await("r", status.Ready)
	l.mu.Lock()
	defer l.mu.Unlock()
	last := l.asked[len(l.asked)-1]
	if last.URL != entry.URL || last.Name != "r" || last.Settings.ClientID != "other" || !last.Settings.NoResource {
		t.Errorf("tokens were asked for %+v", last)
	}
}

func TestLoginServer(t *testing.T) {
	t.Parallel()
	local, own, remote := fake("local"), at("http://127.0.0.1:1/", config.AutoHTTP), at("http://127.0.0.1:1/mcp", config.AutoHTTP)
	own.Name, remote.Name, remote.Headers, remote.Disabled = "own", "remote", nil, true
	remote.OAuth = &config.OAuth{ClientID: "me", CallbackPort: 7, Grant: "device_code"}
	f := supervise(t, local, own, remote)
	for name, want := range map[string]string{
		"local": `"env"`, "own": `"Authorization" of its own`, "none": "no server is named",
	} {
		_, err := f.LoginServer(t.Context(), name, "")
		expect.Error(t, err, want, "%s", name)
	}
	got, err := f.LoginServer(t.Context(), "remote", "")
	if err != nil || got.URL != remote.URL || got.Settings.ClientID != "me" || got.Settings.CallbackPort != 7 || got.Settings.Grant != oauth.DeviceCode {
		t.Errorf("%+v, %v", got, err)
	}
	mcptest.WaitFor(t, "the process to be ready", func() bool { return f.state("local").State == status.Ready })
}
