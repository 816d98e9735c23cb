package login

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/mcp-metarouter/metarouter/internal/oauth"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/fakeissuer"
)

// A setting is the logins of a router, an issuer and a server that trusts it.
type setting struct {
	*testing.T
	logins   *Logins
	issuer   *fakeissuer.Issuer
	resource *fakeissuer.Resource
	server   oauth.Server
	folder   string // of the store
	logs     *observer.ObservedLogs
}

func newSetting(t *testing.T, o fakeissuer.Options, p fakeissuer.Protection) *setting {
	t.Helper()
	t.Setenv("METAROUTER_KEYRING", "off")
	if o.Clients == nil {
		o.Clients = map[string]string{"us": ""}
	}
	i := fakeissuer.New(t, o)
	f := &setting{T: t, issuer: i, resource: i.Protect(t, p), folder: t.TempDir()}
	f.server = oauth.Server{Name: "far", URL: f.resource.URL}
	f.logins = f.router()
	return f
}

// router returns the logins of a router of the same user, as another process has them.
func (f *setting) router() *Logins {
	f.Helper()
	core, logs := observer.New(zapcore.DebugLevel)
	f.logs = logs
	l := New(Options{Store: NewStore(f.folder), Log: zap.New(core), PublicURL: func() string { return "https://router.example.com/tools/" }})
	f.Cleanup(l.Close)
	return l
}

func (f *setting) begin(r Request) *Pending {
	f.Helper()
	r.Server = f.server
	p, err := f.logins.Begin(f.Context(), r)
	expect.OK(f, err)
	return p
}

// browse opens the URL in a browser, up to the page at the end.
func (f *setting) browse(url string) (status int, page string) {
	f.Helper()
	status, page, err := fakeissuer.Follow(f.Context(), url)
	expect.OK(f, err)
	return status, page
}

// logIn logs in with a browser.
func (f *setting) logIn(r Request) *Pending {
	f.Helper()
	p := f.begin(r)
	f.browse(p.URL)
	expect.OK(f, p.Wait(f.Context()))
	return p
}

// redirected returns where the issuer sends the browser.
func (f *setting) redirected(p *Pending) *url.URL {
	f.Helper()
	text, err := fakeissuer.Redirected(f.Context(), p.URL)
	expect.OK(f, err)
	u, err := url.Parse(text)
	expect.OK(f, err)
	return u
}

// get sends a request as a browser does and returns its answer, without following it.
func (f *setting) get(to *url.URL, change func(*http.Request)) (resp *http.Response, page string) {
	f.Helper()
	req, err := http.NewRequestWithContext(f.Context(), http.MethodGet, to.String(), nil)
	expect.OK(f, err)
	if change != nil {
		change(req)
	}
	c := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err = c.Do(req)
	expect.OK(f, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	expect.OK(f, err)
	return resp, string(body)
}

// with returns the URL with other parameters; "" removes one.
func with(u *url.URL, pairs ...string) *url.URL {
	changed, q := *u, u.Query()
	for i := 0; i < len(pairs); i += 2 {
		if q.Set(pairs[i], pairs[i+1]); pairs[i+1] == "" {
			q.Del(pairs[i])
		}
	}
	changed.RawQuery = q.Encode()
	return &changed
}

func contains(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		expect.Contains(t, text, part)
	}
}

func TestLogin(t *testing.T) {
	f := newSetting(t, fakeissuer.Options{StrictRedirect: true}, fakeissuer.Protection{Scopes: []string{"read", "write"}})
	changed := f.logins.Source(f.server).Changed(t.Context())
	p := f.begin(Request{})
	status, page := f.browse(p.URL)
	expect.Equal(t, status, http.StatusOK, "status")
	contains(t, page, "You are logged in to far.")
	expect.OK(t, p.Wait(t.Context()))
	<-changed
	f.mustWork(f.logins.Source(f.server))
	state, err := f.logins.State(t.Context(), f.server)
	if err != nil || !state.LoggedIn || state.Issuer != f.issuer.URL || !state.Renews || state.Why != "" || !slices.Equal(state.Scopes, []string{"read", "write"}) {
		t.Errorf("%+v, %v", state, err)
	}

	// Another router of the user logs in again, with the same registration.
	f.logins = f.router()
	if again := f.logIn(Request{}); again.URL == p.URL {
		t.Error("the URL is used twice")
	}
	expect.Equal(t, f.issuer.Counts().Registrations, 1, "registrations")
}

// No log and no page has a secret.
func TestNoSecrets(t *testing.T) {
	f := newSetting(t, fakeissuer.Options{}, fakeissuer.Protection{})
	p := f.begin(Request{By: "hash-of-a-token"})
	back := f.redirected(p)
	_, page := f.get(back, nil)
	expect.OK(t, p.Wait(t.Context()))
	saved, err := f.logins.Source(f.server).saved(t.Context())
	expect.OK(t, err)
	said := page + fmt.Sprint(f.logs.All())
	for _, e := range f.logs.All() {
		said += fmt.Sprint(e.Message, e.ContextMap())
	}
	contains(t, said, "a login began", "a login is done", f.issuer.URL)
	for name, secret := range map[string]string{
		"code": back.Query().Get("code"), "state": p.state, "verifier": p.verifier,
		"access": saved.Token.Access, "refresh": saved.Token.Refresh, "principal": "hash-of-a-token",
	} {
		if secret == "" || strings.Contains(said, secret) {
			t.Errorf("the %s (%q) is in a log or page", name, secret)
		}
	}
	expect.Equal(t, strings.Contains(p.URL, p.verifier), false, "the verifier is in the URL")
}

func TestFinish(t *testing.T) {
	for name, paste := range map[string]func(u *url.URL) string{
		"URL":         func(u *url.URL) string { return u.String() },
		"query":       func(u *url.URL) string { return u.RawQuery },
		"quotes":      func(u *url.URL) string { return "  '" + u.String() + "'\r\n" },
		"broken line": func(u *url.URL) string { return u.String()[:60] + "\n  " + u.String()[60:] },
		"fragment":    func(u *url.URL) string { return u.String() + "#_=_" },
	} {
		t.Run(name, func(t *testing.T) {
			f := newSetting(t, fakeissuer.Options{}, fakeissuer.Protection{})
			p := f.begin(Request{})
			u := f.redirected(p)
			for wrong, says := range map[string]string{
				"":                                 "no such address",
				"https://":                         "no such address",
				p.URL:                              "state",
				with(u, "state", "x").String():     "another login",
				with(u, "code", "").String():       "no answer of the issuer",
				"http://127.0.0.1/callback?code=1": "no answer of the issuer",
				"https://x.example/?state=a;b=%zz&code=1":        "no such address",
				"?state=" + strings.Repeat("x", maxRedirected+1): "no such address",
			} {
				if wrong == p.URL {
					says = "no answer of the issuer"
				}
				err := p.Finish(t.Context(), wrong)
				if err == nil {
					t.Fatalf("%.80q is accepted", wrong)
				}
				contains(t, err.Error(), says, p.redirect)
				expect.Equal(t, strings.Contains(err.Error(), u.Query().Get("code")), false, "the code is in the error: %v", err)
			}
			expect.OK(t, p.Finish(t.Context(), paste(u)))
			expect.OK(t, p.Wait(t.Context()))
			f.mustWork(f.logins.Source(f.server))
		})
	}
}

func TestClose(t *testing.T) {
	f := newSetting(t, fakeissuer.Options{}, fakeissuer.Protection{})
	before := goleak.IgnoreCurrent()
	l := f.router()
	p, err := l.Begin(t.Context(), Request{Server: f.server})
	expect.OK(t, err)
	device, err := l.Begin(t.Context(), Request{Server: f.server, By: "ann", Way: Device})
	expect.OK(t, err)
	l.Close()
	for _, p := range []*Pending{p, device} {
		if err := p.Wait(t.Context()); !errors.Is(err, errClosed) {
			t.Errorf("%v", err)
		}
	}
	if _, err := l.Begin(t.Context(), Request{Server: f.server}); !errors.Is(err, errClosed) {
		t.Errorf("%v", err)
	}
	if left, err := net.Dial("tcp", "127.0.0.1:"+strconv.Itoa(p.listener.port)); err == nil {
		left.Close()
		t.Error("the listener is left")
	}
	goleak.VerifyNone(t, before, goleak.IgnoreAnyFunction("net/http.(*conn).serve"))
}

func TestLogout(t *testing.T) {
	f := newSetting(t, fakeissuer.Options{}, fakeissuer.Protection{})
	if was, err := f.logins.Logout(t.Context(), f.server); was || err != nil {
		t.Errorf("without a login: %v, %v", was, err)
	}
	f.logIn(Request{})
	pending := f.begin(Request{})
	if was, err := f.logins.Logout(t.Context(), f.server); !was || err != nil {
		t.Errorf("%v, %v", was, err)
	}
	if err := pending.Wait(t.Context()); !errors.Is(err, errLoggedOut) {
		t.Errorf("a login that waited: %v", err)
	}
	if n := f.issuer.Counts().Revocations; n == 0 {
		t.Error("nothing is revoked")
	}
	if state, err := f.logins.State(t.Context(), f.server); err != nil || state.LoggedIn {
		t.Errorf("%+v, %v", state, err)
	}

	// Without its issuer a login is forgotten all the same, and the registration stays.
	f.logIn(Request{})
	source := f.logins.Source(f.server)
	saved, err := source.saved(t.Context())
	if err != nil || saved == nil {
		t.Fatal(saved, err)
	}
	saved.Found.Issuer.RevocationEndpoint = "http://127.0.0.1:1/revoke"
	expect.OK(t, source.save(t.Context(), *saved))
	was, err := f.logins.Logout(t.Context(), f.server)
	if !was || err == nil {
		t.Fatalf("%v, %v", was, err)
	}
	contains(t, err.Error(), "far", "forgotten", f.issuer.URL)
	if state, err := f.logins.State(t.Context(), f.server); err != nil || state.LoggedIn {
		t.Errorf("%+v, %v", state, err)
	}
	f.begin(Request{})
	expect.Equal(t, f.issuer.Counts().Registrations, 1, "registrations")
}
