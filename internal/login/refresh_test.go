package login

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/mcp-metarouter/metarouter/internal/oauth"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/test/fakeissuer"
)

// A world is an issuer, a server that trusts it, and a folder of logins.
type world struct {
	t        *testing.T
	issuer   *fakeissuer.Issuer
	resource *fakeissuer.Resource
	folder   string
}

func newWorld(t *testing.T, o fakeissuer.Options) *world {
	t.Helper()
	t.Setenv("METAROUTER_KEYRING", "off")
	o.Clients = map[string]string{"us": ""}
	i := fakeissuer.New(t, o)
	return &world{t, i, i.Protect(t, fakeissuer.Protection{}), t.TempDir()}
}

// router returns the source of a router of its own, as another process has it.
func (w *world) router() *Source {
	w.t.Helper()
	server := oauth.Server{Name: "far", URL: w.resource.URL}
	s := newSource(Options{Store: NewStore(w.folder), Log: zaptest.NewLogger(w.t)}, server, remote{oauth.NewHTTPClient(server)})
	w.t.Cleanup(s.tasks.close)
	return s
}

// login stores a login as if a person had just logged in.
func (w *world) login(s *Source, scopes ...string) {
	w.t.Helper()
	access, refresh, expires := w.issuer.Issue("us", w.resource.URL, scopes...)
	err := s.save(w.t.Context(), record{
		Found:  oauth.Found{Resource: w.resource.URL, Asserted: true, Issuer: oauth.Issuer{ID: w.issuer.URL, TokenEndpoint: w.issuer.URL + "/token"}},
		Client: oauth.Client{ID: "us", AuthMethod: "none"},
		Token:  oauth.Token{Access: access, Refresh: refresh, Obtained: wall(), Expires: expires.Round(0), Scopes: scopes},
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

// request sends a request as the transport does, and returns the status or why there is none.
func (w *world) request(s *Source) (int, error) {
	for range 2 {
		token, err := s.Token(w.t.Context())
		if err != nil {
			return 0, err
		}
		req, err := http.NewRequestWithContext(w.t.Context(), http.MethodDelete, w.resource.URL, nil)
		if err != nil {
			return 0, err
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, err
		}
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			return resp.StatusCode, nil
		}
		if err := s.Refused(w.t.Context(), token, resp); err != nil {
			return 0, err
		}
	}
	return http.StatusUnauthorized, nil
}

// mustWork fails the test unless the server accepts the token of a request.
func (w *world) mustWork(s *Source) {
	w.t.Helper()
	if code, err := w.request(s); err != nil || code == http.StatusUnauthorized {
		w.t.Fatalf("a request: status %d, %v", code, err)
	}
}

// mustNeed fails the test unless a login is needed for the reason.
func (w *world) mustNeed(s *Source, why status.LoginReason) *NeededError {
	w.t.Helper()
	_, err := w.request(s)
	needed, ok := errors.AsType[*NeededError](err)
	if !ok || needed.Why != why {
		w.t.Fatalf("a request: %v, want a login that is needed because %s", err, why)
	}
	return needed
}

func TestRefusedIsRefreshedOnce(t *testing.T) {
	w := newWorld(t, fakeissuer.Options{Rotate: true})
	w.login(w.router())
	w.issuer.ForgetAccess()
	w.issuer.Change(func(o *fakeissuer.Options) {
		o.BeforeAnswer = func(string) bool {
			time.Sleep(200 * time.Millisecond) // so that all ask at the same time if they can
			return true
		}
	})
	grow(t, w.folder, w.resource.URL) // else the token is too young to be refreshed
	var all sync.WaitGroup
	for range 5 {
		s := w.router()
		for range 10 {
			all.Go(func() { w.mustWork(s) })
		}
	}
	all.Wait()
	if c := w.issuer.Counts(); c.Refreshes != 1 || c.Reuses != 0 {
		t.Errorf("%d refreshes and %d reuses", c.Refreshes, c.Reuses)
	}
}

// grow makes the stored token a minute older.
func grow(t *testing.T, folder, server string) {
	t.Helper()
	err := NewStore(folder).edit(t.Context(), func(c *content) error {
		e := c.Logins[key(server)]
		e.Token.Obtained = e.Token.Obtained.Add(-time.Minute)
		c.Logins[key(server)] = e
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestNeverLoggedIn(t *testing.T) {
	w := newWorld(t, fakeissuer.Options{})
	s := w.router()
	if issuer := w.mustNeed(s, status.NeverLoggedIn).Issuer; issuer != w.issuer.URL {
		t.Errorf("the issuer is %q", issuer)
	}
	if s.finder.known() == nil {
		t.Error("the discovery is not kept for the login")
	}
	changed := s.Changed()
	select {
	case <-changed:
		t.Fatal("Changed is closed though nobody has logged in")
	default:
	}
	w.login(w.router()) // in another process
	<-changed
	w.mustWork(s)
	if _, err := w.router().account.forget(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.mustNeed(s, status.NeverLoggedIn)
	if left, _ := filepath.Glob(filepath.Join(w.folder, "login-*")); len(left) != 0 {
		t.Errorf("after the logout there is %q", left)
	}
}

func TestLoginExpired(t *testing.T) {
	w := newWorld(t, fakeissuer.Options{Life: time.Second})
	s := w.router()
	w.login(s)
	w.issuer.RevokeAll()
	expire(t, w)
	w.mustNeed(s, status.LoginExpired)
	before := w.issuer.Counts().TokenRequests
	for range 5 {
		w.mustNeed(s, status.LoginExpired)
		w.mustNeed(w.router(), status.LoginExpired)
	}
	if n := w.issuer.Counts().TokenRequests - before; n != 0 {
		t.Errorf("%d requests to the issuer for a login that has ended", n)
	}
	w.issuer.Change(func(o *fakeissuer.Options) { o.Life = time.Hour })
	w.login(w.router())
	w.mustWork(s)
}

// expire makes the stored token one that has expired.
func expire(t *testing.T, w *world) {
	t.Helper()
	err := NewStore(w.folder).edit(t.Context(), func(c *content) error {
		e := c.Logins[key(w.resource.URL)]
		e.Token.Obtained, e.Token.Expires = wall().Add(-2*time.Hour), wall().Add(-time.Hour)
		c.Logins[key(w.resource.URL)] = e
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestInterrupted ends a router between the issuer's answer and the write of it.
func TestInterrupted(t *testing.T) {
	for name, test := range map[string]struct {
		grace time.Duration
		why   status.LoginReason
	}{"strict": {0, status.RefreshInterrupted}, "grace": {time.Hour, ""}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, fakeissuer.Options{Rotate: true, Grace: test.grace})
			w.login(w.router())
			expire(t, w)
			killed := atomic.Bool{}
			w.issuer.Change(func(o *fakeissuer.Options) {
				o.BeforeAnswer = func(string) bool { return !killed.CompareAndSwap(false, true) }
			})
			w.mustNeed(w.router(), status.IssuerUnreachable) // its write never comes
			next := w.router()
			if test.why == "" {
				w.mustWork(next)
				return
			}
			w.mustNeed(next, test.why)
			before := w.issuer.Counts().TokenRequests
			for range 5 {
				w.mustNeed(next, test.why)
			}
			if n := w.issuer.Counts().TokenRequests - before; n != 0 {
				t.Errorf("%d requests to the issuer after that", n)
			}
		})
	}
}

func TestIssuerDown(t *testing.T) {
	w := newWorld(t, fakeissuer.Options{Rotate: true})
	s := w.router()
	w.login(s)
	expire(t, w)
	w.issuer.Change(func(o *fakeissuer.Options) { o.Down = true })
	w.mustNeed(s, status.IssuerUnreachable)
	lasts := func(until time.Time) {
		s.outage.mu.Lock()
		defer s.outage.mu.Unlock()
		s.outage.until = until
	}
	lasts(time.Now().Add(time.Hour))
	for range 4 {
		w.mustNeed(s, status.IssuerUnreachable)
	}
	if n := w.issuer.Counts().TokenRequests; n != 1 {
		t.Errorf("%d requests to an issuer that is down", n)
	}
	w.issuer.Change(func(o *fakeissuer.Options) { o.Down = false })
	w.mustWork(w.router()) // it does not wait
	lasts(time.Time{})
	w.mustWork(s) // it finds the token of the other one
}

func TestTokenRejected(t *testing.T) {
	w := newWorld(t, fakeissuer.Options{Rotate: true})
	s := w.router()
	w.login(s)
	w.resource.Change(func(p *fakeissuer.Protection) { p.Refuse = true })
	grow(t, w.folder, w.resource.URL)
	for range 5 {
		w.mustNeed(s, status.TokenRejected)
	}
	if n := w.issuer.Counts().Refreshes; n != 1 {
		t.Errorf("%d refreshes of a token that the server refuses", n)
	}
}

// An issuer that counts whole seconds may end a token of 8 s in its 6th second.
func TestShortLifeEndsEarly(t *testing.T) {
	w := newWorld(t, fakeissuer.Options{Rotate: true})
	s := w.router()
	w.login(s)
	w.issuer.ForgetAccess()
	err := NewStore(w.folder).edit(t.Context(), func(c *content) error {
		e := c.Logins[key(w.resource.URL)]
		e.Token.Obtained, e.Token.Expires = wall().Add(-5*time.Second), wall().Add(3*time.Second)
		c.Logins[key(w.resource.URL)] = e
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	w.mustWork(s)
}

func TestMovedIssuer(t *testing.T) {
	w := newWorld(t, fakeissuer.Options{Rotate: true})
	s := w.router()
	w.login(s)
	other := fakeissuer.New(t, fakeissuer.Options{})
	w.resource.Move(other)
	grow(t, w.folder, w.resource.URL)
	if needed := w.mustNeed(s, status.LoginExpired); needed.Issuer != other.URL {
		t.Errorf("the login is needed at %s, want %s", needed.Issuer, other.URL)
	}
	if a, b := w.issuer.Counts().TokenRequests, other.Counts().TokenRequests; a != 0 || b != 0 {
		t.Errorf("%d requests to the old issuer and %d to the new one", a, b)
	}
}

func TestStepUp(t *testing.T) {
	w := newWorld(t, fakeissuer.Options{})
	s := w.router()
	forbidden := &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{
		"Www-Authenticate": {`Bearer error="insufficient_scope", scope="read write"`},
	}}
	for range maxSteps - 1 {
		w.login(s, "read")
		token, err := s.Token(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the same login again is no try
			needed, ok := errors.AsType[*NeededError](s.Refused(t.Context(), token, forbidden))
			if !ok || needed.Why != status.ScopeMissing || strings.Join(needed.Scopes, " ") != "read write" {
				t.Fatalf("%+v", needed)
			}
		}
	}
	w.login(s, "read")
	token, _ := s.Token(t.Context())
	if err := s.Refused(t.Context(), token, forbidden); err == nil || errors.As(err, new(*NeededError)) {
		t.Errorf("after %d logins: %v", maxSteps, err)
	}
}

// TestCallerEnds checks that a refresh survives the caller that triggered it.
func TestCallerEnds(t *testing.T) {
	w := newWorld(t, fakeissuer.Options{Rotate: true})
	s := w.router()
	w.login(s)
	expire(t, w)
	asked, proceed := make(chan struct{}), make(chan struct{})
	w.issuer.Change(func(o *fakeissuer.Options) {
		o.BeforeAnswer = func(string) bool {
			close(asked)
			<-proceed
			return true
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := s.Token(ctx)
		done <- err
	}()
	<-asked
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("the caller that ended: %v", err)
	}
	close(proceed)
	w.mustWork(s)
	if c := w.issuer.Counts(); c.Refreshes != 1 || c.Reuses != 0 {
		t.Errorf("%d refreshes and %d reuses", c.Refreshes, c.Reuses)
	}
}

// TestUnreadable checks that a damaged file is an error that stays, not a login that is missing.
func TestUnreadable(t *testing.T) {
	w := newWorld(t, fakeissuer.Options{})
	w.login(w.router())
	path := filepath.Join(w.folder, "logins.enc")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), strings.TrimPrefix(w.resource.URL, "http://")) {
		t.Error("the file tells the URL of the server")
	}
	data[len(data)-10] ^= 1
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	s := w.router()
	if _, err := s.Token(t.Context()); err == nil || !strings.Contains(err.Error(), "log in again") {
		t.Errorf("Token: %v", err)
	}
	if err := s.save(t.Context(), record{}); err == nil {
		t.Error("save overwrites a file that can't be read")
	}
	if after, _ := os.ReadFile(path); string(after) != string(data) {
		t.Error("the file has changed")
	}
}

// TestNothingSent checks that a refresh that never left counts as none: the next one is the first.
func TestNothingSent(t *testing.T) {
	for name, endpoint := range map[string]string{
		"no https":  "http://issuer.example/token",
		"forbidden": "https://169.254.169.254/token",
		"closed":    "http://127.0.0.1:1/token",
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, fakeissuer.Options{})
			s := w.router()
			err := s.save(t.Context(), record{
				Found: oauth.Found{Issuer: oauth.Issuer{ID: w.issuer.URL, TokenEndpoint: endpoint}},
				Token: oauth.Token{Access: "old", Refresh: "next", Obtained: wall().Add(-time.Hour), Expires: wall().Add(-time.Minute)},
			})
			if err != nil {
				t.Fatal(err)
			}
			w.mustNeed(s, status.IssuerUnreachable)
			if e, err := s.account.read(t.Context(), true); err != nil || e == nil || e.Refreshing {
				t.Errorf("in the store there is %v, %v", e, err)
			}
		})
	}
}
