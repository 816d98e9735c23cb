package login

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/fakeissuer"
)

func TestWrongAnswers(t *testing.T) {
	other := fakeissuer.New(t, fakeissuer.Options{})
	tests := map[string]struct {
		options fakeissuer.Options
		change  func(u *url.URL) *url.URL
		request func(*http.Request)
		status  int
		page    string
		ends    string // the error of the login; "" if it waits on
	}{
		"state":         {change: func(u *url.URL) *url.URL { return with(u, "state", "x") }, status: 404, page: "not known here"},
		"no state":      {change: func(u *url.URL) *url.URL { return with(u, "state", "") }, status: 404, page: "not known here"},
		"two states":    {change: func(u *url.URL) *url.URL { c := *u; c.RawQuery += "&state=x"; return &c }, status: 404, page: "not known here"},
		"path":          {change: func(u *url.URL) *url.URL { c := *u; c.Path = "/other"; return &c }, status: 404, page: "not known here"},
		"no code":       {change: func(u *url.URL) *url.URL { return with(u, "code", "") }, status: 400, page: "no answer of the issuer"},
		"method":        {request: func(r *http.Request) { r.Method = http.MethodPost }, status: 405, page: "for the answer"},
		"rebinding":     {request: func(r *http.Request) { r.Host = "attacker.example:" + r.URL.Port() }, status: 404, page: "not known here"},
		"iss":           {change: func(u *url.URL) *url.URL { return with(u, "iss", "https://attacker.example") }, status: 200, page: "another issuer", ends: "another issuer"},
		"iss of issuer": {options: fakeissuer.Options{Iss: "https://attacker.example"}, status: 200, page: "another issuer", ends: "another issuer"},
		"no iss":        {change: func(u *url.URL) *url.URL { return with(u, "iss", "") }, status: 200, page: "does not say who sent it", ends: "does not say who sent it"},
		"mix-up":        {change: func(u *url.URL) *url.URL { return with(u, "iss", other.URL, "code", "code-of-other") }, status: 200, page: "another issuer", ends: "another issuer"},
		"denied":        {options: fakeissuer.Options{Deny: true}, status: 200, page: "was refused at", ends: "by you or by its rules"},
		"script": {change: func(u *url.URL) *url.URL {
			return with(u, "code", "", "error", "x", "error_description", "<script>alert(1)</script>")
		}, status: 200, page: "&lt;script&gt;", ends: "failed"},
		"open redirect": {change: func(u *url.URL) *url.URL {
			return with(u, "redirect_uri", "https://attacker.example", "next", "//attacker.example")
		}, status: 200, page: "You are logged in", ends: "nil"},
		"wrong code": {change: func(u *url.URL) *url.URL { return with(u, "code", "guessed") }, status: 200, page: "invalid_grant", ends: "invalid_grant"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := newSetting(t, test.options, fakeissuer.Protection{})
			p := f.begin(Request{})
			u := f.redirected(p)
			code := u.Query().Get("code")
			if test.change != nil {
				u = test.change(u)
			}
			resp, page := f.get(u, test.request)
			expect.Equal(t, resp.StatusCode, test.status, "status")
			contains(t, page, test.page)
			h := resp.Header
			contains(t, h.Get("Content-Security-Policy"), "default-src 'none'", "frame-ancestors 'none'")
			if h.Get("Location") != "" || h.Get("Cache-Control") != "no-store" || h.Get("Referrer-Policy") != "no-referrer" || strings.Contains(page, "<script") {
				t.Errorf("%v %s", h, page)
			}
			if code != "" && strings.Contains(page, code) {
				t.Error("the page has the code")
			}
			switch test.ends {
			case "":
				if p.Over.Err() != nil {
					t.Fatalf("the login has ended: %v", p.Wait(t.Context()))
				}
				if f.browse(p.URL); p.Wait(t.Context()) != nil {
					t.Errorf("the login does not go on: %v", p.Wait(t.Context()))
				}
			case "nil":
				expect.OK(t, p.Wait(t.Context()))
			default:
				expect.Error(t, p.Wait(t.Context()), test.ends)
				if saved, _ := f.logins.Source(f.server).saved(t.Context()); saved != nil {
					t.Error("a token is stored")
				}
			}
			expect.Equal(t, other.Counts().TokenRequests, 0, "requests to the other issuer")
		})
	}
}

// Of many answers one is used, and the others get the same page.
func TestReplay(t *testing.T) {
	f := newSetting(t, fakeissuer.Options{}, fakeissuer.Protection{})
	p := f.begin(Request{})
	back := f.redirected(p)
	ask := func(want ...string) {
		w := httptest.NewRecorder()
		p.answer(w, httptest.NewRequest(http.MethodGet, back.String(), nil))
		if page := w.Body.String(); w.Code != http.StatusOK || !slices.ContainsFunc(want, func(part string) bool { return strings.Contains(page, part) }) {
			t.Errorf("%d %s", w.Code, page)
		}
	}
	var browsers sync.WaitGroup
	for range 10 {
		browsers.Go(func() { ask("logged in", "done already") })
	}
	browsers.Wait()
	ask("done already")
	f.logins.Close()
	expect.Equal(t, f.issuer.Counts().TokenRequests, 1, "token requests")
}

// An answer counts only at the port to which the issuer was to send it.
func TestOtherPort(t *testing.T) {
	f := newSetting(t, fakeissuer.Options{}, fakeissuer.Protection{})
	first := f.redirected(f.begin(Request{}))
	f.server.Name, f.issuer = "near", fakeissuer.New(t, fakeissuer.Options{})
	f.resource.Move(f.issuer)
	there := *first
	there.Host = f.redirected(f.begin(Request{})).Host
	if there.Host == first.Host {
		t.Fatal("both come back to the same port")
	}
	resp, page := f.get(&there, func(r *http.Request) { r.Host = first.Host })
	expect.Equal(t, resp.StatusCode, http.StatusNotFound, "%s", page)
}

func TestPublic(t *testing.T) {
	f := newSetting(t, fakeissuer.Options{}, fakeissuer.Protection{})
	local := f.redirected(f.begin(Request{By: "ann"}))
	if _, err := f.logins.Callback(t.Context(), "ann", local.RawQuery); !errors.Is(err, errUnknown) {
		t.Errorf("a login of this machine is finished from outside: %v", err)
	}
	p := f.begin(Request{By: "ann", Way: Public})
	back := f.redirected(p)
	if back.Host != "router.example.com" || back.Path != "/tools"+CallbackPath {
		t.Errorf("it comes back to %s", back)
	}
	here := *back
	here.Scheme, here.Host, here.Path = local.Scheme, local.Host, local.Path
	second := f.begin(Request{By: "bob"}) // has a listener open
	here.Host = f.redirected(second).Host
	if resp, page := f.get(&here, nil); resp.StatusCode != http.StatusNotFound {
		t.Errorf("a public login is finished on this machine: %s", page)
	}
	for _, by := range []string{"", "bob", "Ann"} {
		if server, err := f.logins.Callback(t.Context(), by, back.RawQuery); !errors.Is(err, errUnknown) || server != "" {
			t.Errorf("%q finishes the login of ann: %q, %v", by, server, err)
		}
	}
	if server, err := f.logins.Callback(t.Context(), "ann", back.RawQuery); err != nil || server != "far" {
		t.Errorf("%q, %v", server, err)
	}
	f.mustWork(f.logins.Source(f.server))
}

func TestExpiry(t *testing.T) {
	f := newSetting(t, fakeissuer.Options{}, fakeissuer.Protection{})
	f.logins.lifetime = 100 * time.Millisecond
	p := f.begin(Request{})
	back := f.redirected(p)
	if err := p.Wait(t.Context()); !errors.Is(err, errExpired) {
		t.Errorf("%v", err)
	}
	if err := p.Finish(t.Context(), back.String()); !errors.Is(err, errExpired) {
		t.Errorf("an expired login is finished: %v", err)
	}
	if _, err := net.DialTimeout("tcp", back.Host, time.Second); err == nil {
		t.Error("the listener is open")
	}

	// The next login has the same client, and it expires too: the issuer may not know the client
	// any more, so that the third one registers again.
	if err := f.begin(Request{}).Wait(t.Context()); !errors.Is(err, errExpired) {
		t.Errorf("%v", err)
	}
	expect.Equal(t, f.issuer.Counts().Registrations, 1, "registrations")
	f.logins.lifetime = Lifetime
	f.begin(Request{})
	expect.Equal(t, f.issuer.Counts().Registrations, 2, "registrations after two logins that nobody completed")
}

// A machine that slept: the wall clock has passed the end of the login, but no timer has.
func TestExpiredInSleep(t *testing.T) {
	f := newSetting(t, fakeissuer.Options{}, fakeissuer.Protection{})
	var slept atomic.Int64
	f.logins.now = func() time.Time { return time.Now().Add(time.Duration(slept.Load())) }
	back := f.redirected(f.begin(Request{}))
	slept.Store(int64(time.Hour))
	if _, page := f.get(back, nil); !strings.Contains(page, "has expired") {
		t.Error(page)
	}
	expect.Equal(t, f.issuer.Counts().TokenRequests, 0, "token requests")
}
