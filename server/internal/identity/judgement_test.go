package identity

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/fakeissuer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// The token of a login is judged again, and renewed, as long as the browser comes.
func TestSignInRenews(t *testing.T) {
	proves := func(f func(*clientauth.Proof) error) func(*signInTest) { return func(s *signInTest) { s.change(f) } }
	issuer := func(f func(*fakeissuer.Options)) func(*signInTest) { return func(s *signInTest) { s.issuer.Change(f) } }
	edits := func(f func(*allowed)) func(*signInTest) { return func(s *signInTest) { s.edit(f) } }
	refused := func(status int, reason string) func(*signInTest) {
		return proves(func(*clientauth.Proof) error { return &clientauth.Refusal{Status: status, Reason: reason} })
	}
	noAdmin := proves(func(p *clientauth.Proof) error { p.Principal.Admin = false; return nil })
	without := fakeissuer.Options{NoRefresh: true}
	for name, tt := range map[string]struct {
		options fakeissuer.Options
		before  func(s *signInTest)
		expired bool
		status  int
		ends    string // why the login ends; "" if it goes on
		atOnce  bool   // it ends before its browser sends anything
		refresh int
		times   int // 0 is once
	}{
		"judged":                     {status: 200},
		"renewed":                    {expired: true, status: 200, refresh: 1},
		"renewed, rotating":          {options: fakeissuer.Options{Rotate: true}, expired: true, status: 200, refresh: 3, times: 3},
		"no refresh token":           {options: without, expired: true, status: 401, ends: "expired"},
		"judged, no refresh token":   {options: without, status: 200},
		"the issuer refuses":         {before: func(s *signInTest) { s.issuer.RevokeAll() }, expired: true, status: 401, ends: "the issuer refuses: invalid_grant"},
		"the issuer is down":         {before: issuer(func(o *fakeissuer.Options) { o.Down = true }), expired: true, status: 503},
		"the token can't be judged":  {before: proves(func(*clientauth.Proof) error { return errors.New("no keys") }), status: 503},
		"the user has left":          {before: refused(403, "no profile"), status: 401, ends: "no profile"},
		"a bad token, renewed":       {before: refused(401, "no key"), status: 401, ends: "no key", refresh: 1},
		"no administrator":           {before: noAdmin, status: 401, ends: "no administrator"},
		"no administrator, renewed":  {before: noAdmin, expired: true, status: 401, ends: "no administrator", refresh: 1},
		"another user":               {before: proves(func(p *clientauth.Proof) error { p.Principal.Hash = "b"; return nil }), status: 401, ends: "another user"},
		"another configuration":      {before: proves(func(p *clientauth.Proof) error { p.Revision = "2"; return nil }), status: 401, ends: "edited"},
		"another name, same user":    {before: proves(func(p *clientauth.Proof) error { p.Principal.Name = "Ann"; return nil }), status: 200},
		"the issuer was edited":      {before: edits(func(o *allowed) { o.Issuers[0].Revision = "2" }), status: 401, ends: "edited", atOnce: true},
		"the issuer was removed":     {before: edits(func(o *allowed) { o.Issuers, o.Tokens = nil, []clientauth.Principal{{Hash: "x"}} }), status: 401, ends: "edited", atOnce: true},
		"there is another publicUrl": {before: edits(func(o *allowed) { o.PublicURL += "/" }), status: 200},
		"there is a new publicUrl":   {before: edits(func(o *allowed) { o.PublicURL = "https://other.example/router" }), status: 401, ends: "edited", atOnce: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSignInTest(t, tt.options)
			cookie := s.logIn()
			stream := make(chan struct{})
			go func() {
				defer close(stream)
				s.ServeHTTP(httptest.NewRecorder(), s.request(http.MethodGet, "/stream", "", cookie...))
			}()
			s.taken()
			for range max(tt.times, 1) {
				one := s.only()
				s.age(tt.expired)
				if tt.before != nil {
					tt.before(s)
				}
				if tt.atOnce && (one.grant.Context.Err() == nil || len(s.who.login.sessions.byID) != 0) {
					t.Error("the login goes on after the edit")
				}
				var all sync.WaitGroup
				for range 8 { // at once, as a page loads its files
					all.Go(func() {
						w := httptest.NewRecorder()
						s.ServeHTTP(w, s.request(http.MethodGet, "/", "", cookie...))
						if w.Code != tt.status {
							t.Errorf("the page: %d %s", w.Code, w.Body)
						}
					})
				}
				all.Wait()
			}
			if c := s.issuer.Counts(); c.Refreshes != tt.refresh || c.Reuses != 0 {
				t.Errorf("%+v, want %d refreshes", c, tt.refresh)
			}
			var events []audit.Event
			if tt.ends == "" {
				events = loginsIn(s.taken())
				if len(events) != 0 || len(s.who.login.sessions.byID) != 1 {
					t.Errorf("the login has ended: %+v", events)
				}
				return // the handler's end ends the stream
			}
			<-stream
			mcptest.WaitFor(t, "the end of the login to be recorded", func() bool {
				events = append(events, loginsIn(s.taken())...)
				return len(events) > 0
			})
			if len(events) != 1 || events[0].Action != audit.LogOut || !strings.Contains(events[0].Reason, tt.ends) || events[0].Principal == "" || len(s.who.login.sessions.byID) != 0 {
				t.Errorf("audited %+v, %d sessions", events, len(s.who.login.sessions.byID))
			}
			s.change(func(p *clientauth.Proof) error { p.Principal.Admin = true; return nil })
			expect.Equal(t, s.page(cookie), 401, "a login comes back")
		})
	}
}

// A browser whose issuer was down goes on when the issuer is back, and can log out meanwhile.
func TestSignInWhileIssuerIsDown(t *testing.T) {
	s := newSignInTest(t, fakeissuer.Options{})
	cookie := s.logIn()
	s.age(true)
	s.issuer.Change(func(o *fakeissuer.Options) { o.Down = true })
	began := time.Now()
	r, _ := s.do(http.MethodGet, "/", "", cookie...)
	if r.StatusCode != 503 || r.Header.Get("Retry-After") == "" {
		t.Errorf("%d %v", r.StatusCode, r.Header)
	}
	n := s.issuer.Counts().TokenRequests
	s.pause(began, time.Hour)
	if status := s.page(cookie); status != 503 || s.issuer.Counts().TokenRequests != n {
		t.Errorf("at once: %d, asked %d times", status, s.issuer.Counts().TokenRequests-n)
	}
	if r, text := s.do(http.MethodGet, "/login", "", cookie...); r.StatusCode != 401 || !strings.Contains(text, "Log in with") {
		t.Errorf("the login page: %d", r.StatusCode)
	}
	s.issuer.Change(func(o *fakeissuer.Options) { o.Down = false })
	s.age(true)
	expect.Equal(t, s.page(cookie), 200, "when the issuer is back")
	s.age(true)
	s.issuer.Change(func(o *fakeissuer.Options) { o.Down = true })
	if r, _ := s.do(http.MethodPost, "/logout", "{}", append(cookie, "Content-Type", "application/json")...); r.StatusCode != 204 || len(s.who.login.sessions.byID) != 0 {
		t.Errorf("logout: %d", r.StatusCode)
	}
}

// The stream of a page ends with the login, though its browser sends nothing.
func TestSignInEndsStreams(t *testing.T) {
	s := newSignInTest(t, fakeissuer.Options{})
	cookie := s.logIn()
	s.age(true)
	s.issuer.RevokeAll()
	one := s.only()
	ctx, stop := one.during(t.Context())
	defer stop()
	<-ctx.Done()
	if one.grant.Context.Err() == nil {
		t.Error("it goes on")
	}
	expect.Equal(t, s.page(cookie), 401, "the page")
}

// Only so many browsers are logged in. One more ends the login that was not used for longest, and
// those that were not used for long end anyway.
func TestSignInsAreBounded(t *testing.T) {
	s := newSignInTest(t, fakeissuer.Options{})
	first, second := s.logIn(), s.logIn()
	l := &s.who.login.sessions
	for range maxLogins - 2 {
		one := l.get(strings.Split(first[1], "=")[1])
		l.begin(one.grant, one.issued)
	}
	if status := s.page(first); status != 200 || len(l.byID) != maxLogins {
		t.Fatalf("%d, %d sessions", status, len(l.byID))
	}
	third := s.logIn()
	for name, want := range map[string]int{"first": 200, "second": 401, "third": 200} {
		expect.Equal(t, s.page(map[string][]string{"first": first, "second": second, "third": third}[name]), want, "%s", name)
	}
	l.mu.Lock()
	for _, one := range l.byID {
		one.mu.Lock()
		one.used = one.used.Add(-loginIdle)
		one.mu.Unlock()
	}
	l.mu.Unlock()
	fourth := s.logIn()
	if status := s.page(fourth); status != 200 || len(l.byID) != 1 {
		t.Errorf("%d, %d sessions", status, len(l.byID))
	}
}
