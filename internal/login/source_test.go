package login

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/oauth"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A script is an issuer that answers in the time of a test.
type script struct {
	life  time.Duration // of tokens; 0 does not say
	takes time.Duration // to answer
	fails error

	mu        sync.Mutex // guards the fields below
	asked     int        // for tokens
	described int        // how often it described itself
}

var farIssuer = oauth.Found{Asserted: true, Issuer: oauth.Issuer{ID: "https://far.example", TokenEndpoint: "https://far.example/token"}}

// RoundTrip answers for the issuer, which is the server's origin.
func (i *script) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := func(status int, body any) (*http.Response, error) {
		data, err := json.Marshal(body)
		return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(bytes.NewReader(data))}, err
	}
	switch {
	case strings.Contains(r.URL.Path, "protected-resource"):
		return answer(http.StatusNotFound, nil)
	case r.Method == http.MethodGet:
		i.mu.Lock()
		defer i.mu.Unlock()
		i.described++
		return answer(http.StatusOK, farIssuer.Issuer)
	}
	i.mu.Lock()
	i.asked++
	asked := i.asked
	i.mu.Unlock()
	over, cancel := context.WithTimeout(r.Context(), i.takes)
	defer cancel()
	if <-over.Done(); r.Context().Err() != nil {
		return nil, r.Context().Err()
	}
	if i.fails != nil {
		return nil, i.fails
	}
	return answer(http.StatusOK, map[string]any{"access_token": fmt.Sprintf("token-%d", asked), "expires_in": i.life.Seconds()})
}

func (i *script) token(access string) oauth.Token {
	t := oauth.Token{Access: access, Obtained: wall()}
	if i.life > 0 {
		t.Expires = t.Obtained.Add(i.life)
	}
	return t
}

func (i *script) requests() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.asked
}

// scripted returns a source with the issuer. It is logged in with "token-0" unless refresh is nil.
func scripted(t *testing.T, i *script, settings oauth.Settings, refresh *string) *Source {
	t.Helper()
	s := beside(t, NewStore(t.TempDir()), oauth.Server{Name: "far", URL: "https://far.example/mcp", Settings: settings}, i)
	if refresh != nil {
		token := i.token("token-0")
		token.Refresh = *refresh
		expect.OK(t, s.save(t.Context(), storedLogin{Found: farIssuer, Client: oauth.Client{ID: "us"}, Token: token}))
	}
	return s
}

// beside returns a source as another router has it.
func beside(t *testing.T, store *Store, server oauth.Server, i http.RoundTripper) *Source {
	l := signal.NewLife()
	t.Cleanup(func() { l.Close(errClosed); l.Wait() })
	return newSource(Options{Store: store, Log: zap.NewNop()}, server, &http.Client{Transport: i}, l)
}

func wantToken(t *testing.T, s *Source, want string) {
	t.Helper()
	if token, err := s.Token(t.Context()); token != want || err != nil {
		t.Errorf("after %v the token is %q, %v; want %q", time.Since(start), token, err, want)
	}
}

func wantNeeded(t *testing.T, s *Source, why status.LoginReason) {
	t.Helper()
	_, err := s.Token(t.Context())
	if needed, ok := errors.AsType[*NeededError](err); !ok || needed.Why != why || whyNeeded(s) != why {
		t.Errorf("after %v: %v and %q, want a login that is needed because %s", time.Since(start), err, whyNeeded(s), why)
	}
}

// whyNeeded returns the reason why the source needs a login, "" if it does not.
func whyNeeded(s *Source) status.LoginReason {
	_, why := s.state()
	return why
}

// start is when the time of synctest begins.
var start = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

var unauthorized = &http.Response{StatusCode: http.StatusUnauthorized, Header: http.Header{}}

func TestRefreshesBeforeTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := &script{life: 100 * time.Second, takes: time.Second}
		s := scripted(t, i, oauth.Settings{}, new("refresh"))
		time.Sleep(79 * time.Second)
		wantToken(t, s, "token-0")
		synctest.Wait()
		if n := i.requests(); n != 0 {
			t.Fatalf("%d refreshes before 80 %% of its life", n)
		}
		time.Sleep(2 * time.Second)
		for range 10 {
			wantToken(t, s, "token-0") // nobody waits for the next one
		}
		time.Sleep(2 * time.Second)
		wantToken(t, s, "token-1")
		expect.Equal(t, i.requests(), 1, "refreshes")
	})
}

// TestAfterSleep checks that a token that expired while the machine slept is not sent.
func TestAfterSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := &script{life: time.Hour, takes: time.Second}
		s := scripted(t, i, oauth.Settings{}, new("refresh"))
		time.Sleep(10 * time.Hour)
		var all sync.WaitGroup
		for range 40 {
			all.Go(func() { wantToken(t, s, "token-1") })
		}
		all.Wait()
		expect.Equal(t, i.requests(), 1, "refreshes")
	})
}

// TestWallClock checks that the age of a token goes by the wall clock: that of the monotonic clock
// stands still while the machine sleeps.
func TestWallClock(t *testing.T) {
	now := wall()
	expect.Equal(t, strings.Contains(now.String(), " m="), false, "%v has a reading of the monotonic clock", now)
	token := oauth.Token{Obtained: time.Now(), Expires: time.Now().Add(time.Hour)}
	for later, want := range map[time.Duration]age{0: young, 47 * time.Minute: young, 49 * time.Minute: old, 2 * time.Hour: tooOld} {
		expect.Equal(t, ageOf(token, now.Add(later)), want, "after %v the age", later)
	}
}

func TestWithoutExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := &script{}
		s := scripted(t, i, oauth.Settings{}, new("refresh"))
		time.Sleep(1000 * time.Hour)
		wantToken(t, s, "token-0")
		expect.OK(t, s.Refused(t.Context(), "token-0", unauthorized))
		wantToken(t, s, "token-1")
		err := s.Refused(t.Context(), "token-1", unauthorized)
		if needed, ok := errors.AsType[*NeededError](err); !ok || needed.Why != status.TokenRejected || i.requests() != 1 {
			t.Errorf("a 401 right after a refresh: %v, %d refreshes", err, i.requests())
		}
	})
}

func TestWithoutRefreshToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := &script{life: 60 * 24 * time.Hour}
		s := scripted(t, i, oauth.Settings{}, new(""))
		time.Sleep(59 * 24 * time.Hour)
		wantToken(t, s, "token-0")
		time.Sleep(2 * 24 * time.Hour)
		wantNeeded(t, s, status.LoginExpired)
		expect.Equal(t, i.requests(), 0, "requests")
	})
}

func TestIssuerDownForAWhile(t *testing.T) {
	for name, another := range map[string]bool{"alone": false, "with another router": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				i := &script{life: time.Hour, fails: errors.New("connection refused")}
				s := scripted(t, i, oauth.Settings{}, new("refresh"))
				time.Sleep(2 * time.Hour)
				for range 60 {
					for range 5 {
						wantNeeded(t, s, status.IssuerUnreachable)
					}
					time.Sleep(time.Second)
				}
				n := i.requests()
				if n < 10 || n > 60/int(retryTime/time.Second)+1 {
					t.Errorf("%d requests in a minute", n)
				}
				i.fails = nil
				next := fmt.Sprintf("token-%d", n+1)
				if another { // which does not wait
					wantToken(t, beside(t, s.store, s.server, i), next)
				}
				time.Sleep(retryTime)
				wantToken(t, s, next)
				expect.Equal(t, whyNeeded(s), "", "a login is needed because")
			})
		})
	}
}

// A refresh survives the caller that triggered it.
func TestCallerEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := &script{life: time.Hour, takes: time.Second}
		s := scripted(t, i, oauth.Settings{}, new("refresh"))
		time.Sleep(2 * time.Hour)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if _, err := s.Token(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the caller that ended: %v", err)
		}
		wantToken(t, s, "token-1")
		expect.Equal(t, i.requests(), 1, "refreshes")
	})
}

func TestCloseWaitsForARefresh(t *testing.T) {
	for name, test := range map[string]struct {
		takes, closes time.Duration
		token         string
	}{"short": {3 * time.Second, 3 * time.Second, "token-1"}, "endless": {time.Hour, closeTime, "token-0"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := scripted(t, &script{life: 10 * time.Hour, takes: test.takes}, oauth.Settings{}, new("refresh"))
				time.Sleep(9 * time.Hour)
				wantToken(t, s, "token-0")
				synctest.Wait()
				before := time.Now()
				s.life.Close(errClosed)
				s.life.Wait()
				expect.Equal(t, time.Since(before), test.closes, "close took")
				if saved, err := s.saved(t.Context()); err != nil || saved.Token.Access != test.token {
					t.Errorf("in the store there is %v, %v", saved, err)
				}
			})
		})
	}
}

func TestClientCredentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := &script{life: time.Hour, takes: time.Second}
		s := scripted(t, i, oauth.Settings{Grant: oauth.ClientCredentials, ClientID: "us", Scopes: []string{"read"}}, nil)
		wantToken(t, s, "")
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if err := s.Refused(t.Context(), "", unauthorized); err != nil {
					t.Error(err)
				}
				wantToken(t, s, "token-1")
			})
		}
		all.Wait()
		if err := s.Refused(t.Context(), "token-1", unauthorized); err == nil || errors.As(err, new(*NeededError)) {
			t.Errorf("a 401 right after the issue: %v", err)
		}
		time.Sleep(2 * time.Hour)
		wantToken(t, s, "token-2")
		time.Sleep(30 * time.Minute)
		expect.OK(t, s.Refused(t.Context(), "token-2", unauthorized))
		wantToken(t, s, "token-3")
		i.fails = errors.New("connection refused")
		time.Sleep(2 * time.Hour)
		if _, err := s.Token(t.Context()); err == nil || errors.As(err, new(*NeededError)) {
			t.Errorf("without the issuer: %v", err)
		}
	})
}

// TestChanged checks that a login in another process wakes who waits for it.
func TestChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scripted(t, &script{}, oauth.Settings{}, nil)
		changed := s.Changed(t.Context())
		time.Sleep(time.Hour)
		select {
		case <-changed:
			t.Error("Changed is closed though nothing has changed")
		default:
		}
		other := beside(t, s.store, s.server, nil)
		expect.OK(t, other.save(t.Context(), storedLogin{Token: oauth.Token{Access: "token"}}))
		<-changed
		wantToken(t, s, "token")
		again := s.Changed(t.Context())
		_, err := other.forget(t.Context())
		expect.OK(t, err)
		<-again
	})
}

// TestOtherOrigin checks that a token goes only to the server that it was issued for.
func TestOtherOrigin(t *testing.T) {
	s := scripted(t, &script{}, oauth.Settings{}, new("refresh"))
	for _, address := range []string{
		"https://far.example.evil.example/mcp", "http://far.example/mcp", "https://far.example:8443/mcp", "https://far.example/other",
	} {
		other := beside(t, s.store, oauth.Server{Name: "far", URL: address}, nil)
		if token, err := other.Token(t.Context()); token != "" || err != nil {
			t.Errorf("%s gets the token %q, %v", address, token, err)
		}
	}
}

// TestLoserDeletesNothing checks that a refused refresh token ends no login that has another one.
func TestLoserDeletesNothing(t *testing.T) {
	s := scripted(t, &script{}, oauth.Settings{}, new("refresh"))
	loser, err := s.read(t.Context(), true)
	expect.OK(t, err)
	_, err = s.refresh(t.Context(), loser)
	expect.OK(t, err) // as another router does
	_ = loginLost(t.Context(), s, loser, false, errors.New("invalid_grant"))
	wantToken(t, s, "token-1")
	if saved, err := s.saved(t.Context()); err != nil || saved == nil || saved.Token.Refresh != "refresh" {
		t.Errorf("in the store there is %v, %v", saved, err)
	}
}

// TestNoFolder checks that logins and tokens of machines work without a folder to keep them in.
func TestNoFolder(t *testing.T) {
	store := NewStore("")
	server := oauth.Server{Name: "far", URL: "https://far.example/mcp", Settings: oauth.Settings{Grant: oauth.ClientCredentials, ClientID: "us", ClientSecret: "secret"}}
	machine := beside(t, store, server, &script{life: time.Hour})
	expect.OK(t, machine.Refused(t.Context(), "", unauthorized)) // which pins the client to its issuer
	wantToken(t, machine, "token-1")
	user := server
	user.Principal, user.Settings = "alice", oauth.Settings{}
	s := beside(t, store, user, &script{life: time.Hour})
	expired := oauth.Token{Access: "token-0", Refresh: "refresh", Obtained: wall().Add(-time.Hour), Expires: wall().Add(-time.Minute)}
	expect.OK(t, s.save(t.Context(), storedLogin{Found: farIssuer, Token: expired}))
	wantToken(t, s, "token-1")
	l, err := s.forget(t.Context())
	expect.OK(t, err)
	if after, err := s.saved(t.Context()); l == nil || after != nil || err != nil {
		t.Errorf("forgotten: %v, then %v, %v", l, after, err)
	}
	c, err := store.read(t.Context(), true)
	expect.OK(t, err)
	expect.Equal(t, len(c.Pins), 1, "pins")
}

// TestMachineSlowIssuer checks that callers wait for a slow issuer until their own ends, and not at all for a token that they have.
func TestMachineSlowIssuer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := &script{life: time.Hour, takes: 20 * time.Second}
		s := scripted(t, i, oauth.Settings{Grant: oauth.ClientCredentials, ClientID: "us"}, nil)
		short, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		var all sync.WaitGroup
		for _, ctx := range []context.Context{short, short, t.Context(), t.Context()} {
			all.Go(func() {
				if err := s.Refused(ctx, "", unauthorized); !errors.Is(err, ctx.Err()) {
					t.Errorf("%v, the caller has %v", err, ctx.Err())
				}
			})
		}
		all.Wait()
		first, _ := s.Token(t.Context())
		all.Go(func() {
			expect.OK(t, s.Refused(t.Context(), first, &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{"Www-Authenticate": {`Bearer scope="x"`}}}))
		})
		synctest.Wait()
		before := time.Now()
		wantToken(t, s, first)
		expect.Equal(t, time.Since(before), 0, "the wait for a valid token")
		all.Wait()
	})
}

// TestMachineRenewsOnceAtATime checks that a token with fewer scopes does not replace one with more that was asked for meanwhile, and that
// all callers with one refused token share the search for the issuer.
func TestMachineRenewsOnceAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := &script{life: time.Hour, takes: 20 * time.Second}
		s := scripted(t, i, oauth.Settings{Grant: oauth.ClientCredentials, ClientID: "us"}, nil)
		expect.OK(t, s.Refused(t.Context(), "", unauthorized))
		time.Sleep(50 * time.Minute)
		wantToken(t, s, "token-1") // which begins a renewal
		synctest.Wait()
		more := &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{"Www-Authenticate": {`Bearer scope="write"`}}}
		for n, scopes := range []int{0, 1} {
			expect.OK(t, s.Refused(t.Context(), fmt.Sprintf("token-%d", n+1), more))
			wantToken(t, s, fmt.Sprintf("token-%d", n+2))
			expect.Equal(t, len(s.own.Load().Scopes), scopes, "scopes")
		}
		before := i.described
		time.Sleep(time.Minute)
		var all sync.WaitGroup
		for n := range 9 {
			all.Go(func() {
				time.Sleep(time.Duration(n) * time.Second)
				expect.OK(t, s.Refused(t.Context(), "token-3", unauthorized))
			})
		}
		all.Wait()
		expect.Equal(t, i.described-before, 1, "searches for the issuer of one token's successor")
	})
}

// TestMachineScopes checks that a token for more scopes keeps those of the last one.
func TestMachineScopes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := scripted(t, &script{}, oauth.Settings{Grant: oauth.ClientCredentials, ClientID: "us"}, nil)
		token := ""
		for i, scope := range []string{"read", "write"} {
			refused := &http.Response{StatusCode: http.StatusForbidden, Header: http.Header{
				"Www-Authenticate": {`Bearer error="insufficient_scope", scope="` + scope + `"`},
			}}
			expect.OK(t, s.Refused(t.Context(), token, refused))
			token = fmt.Sprintf("token-%d", i+1)
			wantToken(t, s, token)
		}
		if got := s.own.Load().Scopes; len(got) != 2 || !slices.Contains(got, "read") || !slices.Contains(got, "write") {
			t.Errorf("the scopes of the last token are %q", got)
		}
	})
}
