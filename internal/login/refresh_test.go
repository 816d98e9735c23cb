package login

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/oauth"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/fakeissuer"
)

// source returns the source of a router of its own, as another process has it.
func (f *setting) source() *Source { return f.router().Source(f.server) }

// store stores a login as if a person had just logged in.
func (f *setting) store(s *Source, scopes ...string) {
	f.Helper()
	access, refresh, expires := f.issuer.Issue("us", f.resource.URL, scopes...)
	err := s.save(f.Context(), storedLogin{
		Found:  oauth.Found{Resource: f.resource.URL, Asserted: true, Issuer: oauth.Issuer{ID: f.issuer.URL, TokenEndpoint: f.issuer.URL + "/token"}},
		Client: oauth.Client{ID: "us", AuthMethod: "none"},
		Token:  oauth.Token{Access: access, Refresh: refresh, Obtained: wall(), Expires: expires.Round(0), Scopes: scopes},
	})
	expect.OK(f, err)
}

// age changes when the stored token was issued, and when it expires, from now.
func (f *setting) age(obtained, expires time.Duration) {
	f.Helper()
	err := NewStore(f.folder).edit(f.Context(), func(c *content) error {
		e := c.Logins[key(oauth.Server{URL: f.resource.URL})]
		e.Token.Obtained, e.Token.Expires = wall().Add(obtained), wall().Add(expires)
		c.Logins[key(oauth.Server{URL: f.resource.URL})] = e
		return nil
	})
	expect.OK(f, err)
}

// request sends a request as the transport does, and returns the status or why there is none.
func (f *setting) request(s *Source) (int, error) {
	for range 2 {
		token, err := s.Token(f.Context())
		if err != nil {
			return 0, err
		}
		req, err := http.NewRequestWithContext(f.Context(), http.MethodDelete, f.resource.URL, nil)
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
		if err := s.Refused(f.Context(), token, resp); err != nil {
			return 0, err
		}
	}
	return http.StatusUnauthorized, nil
}

// mustWork fails the test unless the server accepts the token of a request.
func (f *setting) mustWork(s *Source) {
	f.Helper()
	if code, err := f.request(s); err != nil || code == http.StatusUnauthorized {
		f.Fatalf("a request: status %d, %v", code, err)
	}
}

// mustNeed fails the test unless a login is needed for the reason.
func (f *setting) mustNeed(s *Source, why status.LoginReason) *NeededError {
	f.Helper()
	_, err := f.request(s)
	needed, ok := errors.AsType[*NeededError](err)
	if !ok || needed.Why != why {
		f.Fatalf("a request: %v, want a login that is needed because %s", err, why)
	}
	return needed
}

func TestRefusedIsRefreshedOnce(t *testing.T) {
	f := newSetting(t, fakeissuer.Options{Rotate: true}, fakeissuer.Protection{})
	f.store(f.source())
	f.issuer.ForgetAccess()
	var all, began sync.WaitGroup
	f.issuer.Change(func(o *fakeissuer.Options) {
		o.BeforeAnswer = func(string) bool {
			began.Wait() // so that all ask at the same time if they can
			return true
		}
	})
	f.age(-time.Minute, time.Hour) // else the token is too young to be refreshed
	began.Add(50)
	for range 5 {
		s := f.source()
		for range 10 {
			all.Go(func() {
				began.Done()
				f.mustWork(s)
			})
		}
	}
	all.Wait()
	if c := f.issuer.Counts(); c.Refreshes != 1 || c.Reuses != 0 {
		t.Errorf("%d refreshes and %d reuses", c.Refreshes, c.Reuses)
	}
}

func TestNeverLoggedIn(t *testing.T) {
	f := newSetting(t, fakeissuer.Options{}, fakeissuer.Protection{})
	s := f.source()
	expect.Equal(t, f.mustNeed(s, status.NeverLoggedIn).Issuer, f.issuer.URL, "the issuer")
	if s.found.Load() == nil {
		t.Error("the discovery is not kept for the login")
	}
	f.store(f.source()) // in another process
	f.mustWork(s)
	_, err := f.source().forget(t.Context())
	expect.OK(t, err)
	f.mustNeed(s, status.NeverLoggedIn)
	if left, _ := filepath.Glob(filepath.Join(f.folder, "login-*")); len(left) != 0 {
		t.Errorf("after the logout there is %q", left)
	}
}

// A login that has ended asks its issuer for nothing more, in no router, until a person logs in again.
// An interrupted refresh is one whose router ends between the issuer's answer and the write of it.
func TestLoginEnds(t *testing.T) {
	interrupt := func(f *setting) {
		killed := atomic.Bool{}
		f.issuer.Change(func(o *fakeissuer.Options) {
			o.BeforeAnswer = func(string) bool { return !killed.CompareAndSwap(false, true) }
		})
		f.mustNeed(f.source(), status.IssuerUnreachable) // its write never comes
	}
	for name, test := range map[string]struct {
		grace time.Duration
		end   func(f *setting)
		why   status.LoginReason // "" if the login goes on
	}{
		"revoked":            {0, func(f *setting) { f.issuer.RevokeAll() }, status.LoginExpired},
		"interrupted":        {0, interrupt, status.RefreshInterrupted},
		"interrupted, grace": {time.Hour, interrupt, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newSetting(t, fakeissuer.Options{Rotate: true, Grace: test.grace}, fakeissuer.Protection{})
			s := f.source()
			f.store(s)
			f.age(-2*time.Hour, -time.Hour)
			test.end(f)
			if test.why == "" {
				f.mustWork(s)
				return
			}
			f.mustNeed(s, test.why)
			before := f.issuer.Counts().TokenRequests
			for range 5 {
				f.mustNeed(s, test.why)
				f.mustNeed(f.source(), test.why)
			}
			expect.Equal(t, f.issuer.Counts().TokenRequests-before, 0, "requests to the issuer for a login that has ended")
			f.store(f.source())
			f.mustWork(s)
		})
	}
}

// A server that refuses the token of a login is not asked again and again.
func TestTokenRejected(t *testing.T) {
	f := newSetting(t, fakeissuer.Options{Rotate: true}, fakeissuer.Protection{Refuse: true})
	s := f.source()
	f.store(s)
	for _, refreshes := range []int{0, 1} { // a young token is not refreshed
		for range 5 {
			f.mustNeed(s, status.TokenRejected)
		}
		expect.Equal(t, f.issuer.Counts().Refreshes, refreshes, "refreshes of a token that the server refuses")
		f.age(-time.Minute, time.Hour)
	}
}

// An issuer that counts whole seconds may end a token of 8 s in its 6th second.
func TestShortLifeEndsEarly(t *testing.T) {
	f := newSetting(t, fakeissuer.Options{Rotate: true}, fakeissuer.Protection{})
	s := f.source()
	f.store(s)
	f.issuer.ForgetAccess()
	f.age(-5*time.Second, 3*time.Second)
	f.mustWork(s)
}

func TestMovedIssuer(t *testing.T) {
	f := newSetting(t, fakeissuer.Options{Rotate: true}, fakeissuer.Protection{})
	s := f.source()
	f.store(s)
	other := fakeissuer.New(t, fakeissuer.Options{})
	f.resource.Move(other)
	f.age(-time.Minute, time.Hour)
	if needed := f.mustNeed(s, status.LoginExpired); needed.Issuer != other.URL {
		t.Errorf("the login is needed at %s, want %s", needed.Issuer, other.URL)
	}
	if a, b := f.issuer.Counts().TokenRequests, other.Counts().TokenRequests; a != 0 || b != 0 {
		t.Errorf("%d requests to the old issuer and %d to the new one", a, b)
	}
}

func TestStepUp(t *testing.T) {
	f := newSetting(t, fakeissuer.Options{}, fakeissuer.Protection{})
	s := f.source()
	forbidden := &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{
		"Www-Authenticate": {`Bearer error="insufficient_scope", scope="read write"`},
	}}
	for range maxSteps - 1 {
		f.store(s, "read")
		token, err := s.Token(t.Context())
		expect.OK(t, err)
		for range 2 { // the same login again is no try
			needed, ok := errors.AsType[*NeededError](s.Refused(t.Context(), token, forbidden))
			if !ok || needed.Why != status.ScopeMissing || strings.Join(needed.Scopes, " ") != "read write" {
				t.Fatalf("%+v", needed)
			}
		}
	}
	f.store(s, "read")
	token, _ := s.Token(t.Context())
	if err := s.Refused(t.Context(), token, forbidden); err == nil || errors.As(err, new(*NeededError)) {
		t.Errorf("after %d logins: %v", maxSteps, err)
	}
}

// TestUnreadable checks that a damaged file is an error that stays, not a login that is missing.
func TestUnreadable(t *testing.T) {
	f := newSetting(t, fakeissuer.Options{}, fakeissuer.Protection{})
	f.store(f.source())
	path := filepath.Join(f.folder, "logins.enc")
	data, err := os.ReadFile(path)
	expect.OK(t, err)
	expect.Equal(t, strings.Contains(string(data), strings.TrimPrefix(f.resource.URL, "http://")), false, "the file tells the URL of the server")
	data[len(data)-10] ^= 1
	expect.OK(t, os.WriteFile(path, data, 0o600))
	s := f.source()
	_, err = s.Token(t.Context())
	expect.Error(t, err, "log in again", "Token")
	if err := s.save(t.Context(), storedLogin{}); err == nil {
		t.Error("save overwrites a file that can't be read")
	}
	if after, _ := os.ReadFile(path); string(after) != string(data) {
		t.Error("the file has changed")
	}
}

// TestNothingSent checks that a refresh that never left counts as none: the next one is the first.
func TestNothingSent(t *testing.T) {
	f := newSetting(t, fakeissuer.Options{}, fakeissuer.Protection{})
	s := f.source()
	err := s.save(t.Context(), storedLogin{
		Found: oauth.Found{Issuer: oauth.Issuer{ID: f.issuer.URL, TokenEndpoint: "http://127.0.0.1:1/token"}},
		Token: oauth.Token{Access: "old", Refresh: "next", Obtained: wall().Add(-time.Hour), Expires: wall().Add(-time.Minute)},
	})
	expect.OK(t, err)
	f.mustNeed(s, status.IssuerUnreachable)
	if e, err := s.read(t.Context(), true); err != nil || e == nil || e.Refreshing {
		t.Errorf("in the store there is %v, %v", e, err)
	}
}
