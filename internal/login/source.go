package login

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/singleflight"

	"github.com/mcp-metarouter/metarouter/internal/oauth"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

// ErrNoOAuth is a server that refuses requests without a token and describes no issuer: no login
// can give it one.
var ErrNoOAuth = errors.New("the server describes no issuer of tokens")

const (
	// discoverTime bounds finding out who issues tokens for a server.
	discoverTime = 30 * time.Second
	// closeTime is how long a refresh under way may go on when the router ends.
	closeTime = 5 * time.Second
	// youngTime is how long after its issue a token is new: if the server refuses it then, the
	// next one would not be better. For one that lives less than a minute it is half of its life,
	// since issuers count whole seconds.
	youngTime = 30 * time.Second
)

// A Source gives requests to one server their token. Its methods may be called by many goroutines
// at once.
type Source struct {
	server oauth.Server
	store  *Store
	key    string // of the login in the store
	log    *zap.Logger
	issuer issuer

	flights singleflight.Group // discoveries and refreshes
	flown   sync.WaitGroup     // flights under way
	work    *sync.WaitGroup    // goroutines of Changed
	ctx     context.Context    // ends with close, or when nobody has the source any more
	stop    context.CancelFunc

	mu        sync.Mutex // guards the fields below
	closed    bool
	found     *oauth.Found
	reason    status.LoginReason
	seen      string       // of the login: what Changed compares
	failed    error        // of the last refresh, which did not reach the issuer; nil if it did
	retry     time.Time    // when to try again after failed
	machine   *oauth.Token // of client_credentials; nil before
	machineOf string       // the issuer of machine
	steps     stepUps

	watchers map[string]chan struct{} // of Changed, by what was seen
}

// An issuer is asked by a source. Tests replace it.
type issuer interface {
	discover(ctx context.Context, s oauth.Server, c oauth.Challenge) (*oauth.Found, error)
	refresh(ctx context.Context, s oauth.Server, r record) (oauth.Token, error)
	credentials(ctx context.Context, s oauth.Server, f oauth.Found, scopes []string) (oauth.Token, error)
}

// newSource returns the source of the server.
func newSource(o Options, server oauth.Server) *Source {
	s := &Source{
		server: server, store: o.Store, key: key(server.URL, Shared), log: o.Log, issuer: remote{oauth.NewHTTPClient(server)},
		work: new(sync.WaitGroup),
	}
	if s.log == nil {
		s.log = zap.NewNop()
	}
	s.log = s.log.With(zap.String("server", server.Name))
	s.ctx, s.stop = context.WithCancel(context.Background())
	runtime.AddCleanup(s, func(stop context.CancelFunc) { stop() }, s.stop)
	return s
}

// close waits for a refresh under way, and aborts it if it takes long.
func (s *Source) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	late := time.AfterFunc(closeTime, s.stop)
	defer late.Stop()
	s.flown.Wait()
	s.stop()
	s.work.Wait()
}

// Token returns the access token for a request, or "" if there is none: then the request is
// sent without, and the server's refusal says how to log in. It refreshes a token that is about
// to expire. The error is a [*NeededError] if the token has expired and a person must log in, or
// if its issuer can't be reached; otherwise the logins can't be read.
func (s *Source) Token(ctx context.Context) (string, error) {
	if s.server.Settings.Grant == oauth.ClientCredentials {
		return s.machineToken(ctx)
	}
	e, err := s.look(ctx, false)
	if err != nil || e == nil {
		return "", err
	}
	now := wall()
	switch age := ageOf(e.Token, now); {
	case e.Token.Access == "":
		return "", s.needed(e.Ended, e, nil)
	case age == young, age == old && e.Token.Refresh == "":
		return e.Token.Access, nil
	case age == old:
		s.refreshSoon(e)
		return e.Token.Access, nil
	case e.Token.Refresh == "":
		return "", s.needed(ended(e), e, nil)
	}
	return s.refreshed(ctx, e, nil)
}

// Refused is called with a response of the status 401 or 403 to a request with this token, which
// may be "". It returns nil if there is another token by now, so that the request may be sent once
// more. Otherwise the error is a [*NeededError] if a login of a person helps, [ErrNoOAuth] if the
// server has no logins, or says why no other token can be had. It does not read the body.
func (s *Source) Refused(ctx context.Context, token string, resp *http.Response) error {
	challenge := oauth.ChallengeOf(resp)
	forbidden := resp.StatusCode == http.StatusForbidden
	switch {
	case forbidden && challenge.Error != "insufficient_scope" && len(challenge.Scopes) == 0:
		return errors.New("the server forbids the request, and does not say that another login helps")
	case s.server.Settings.Grant == oauth.ClientCredentials:
		return s.machineRefused(ctx, token, challenge, forbidden)
	}
	e, err := s.look(ctx, true)
	switch {
	case err != nil:
		return err
	case e != nil && e.Token.Access != "" && e.Token.Access != token && ageOf(e.Token, wall()) != tooOld:
		return nil
	case e == nil || token == "":
		return s.never(ctx, e, challenge)
	case forbidden:
		return s.stepUp(e, challenge)
	}
	return s.rejected(ctx, e, token, challenge)
}

// never returns the error of a server at which nobody is logged in.
func (s *Source) never(ctx context.Context, e *entry, c oauth.Challenge) error {
	if e != nil {
		return s.needed(ended(e), e, nil)
	}
	found, err := s.discovered(ctx, c, false)
	if err != nil {
		return err
	}
	s.note(status.NeverLoggedIn, nil)
	return &NeededError{Server: s.server.Name, Why: status.NeverLoggedIn, Issuer: found.Issuer.ID, Scopes: c.Scopes}
}

// rejected tries to replace the token of the login, which the server has refused.
func (s *Source) rejected(ctx context.Context, e *entry, token string, c oauth.Challenge) error {
	if e.Token.Access != token { // the stored one has expired
		_, err := s.refreshedOrNeeded(ctx, e, nil)
		return err
	}
	now := wall()
	age, life := ageOf(e.Token, now), now.Sub(e.Token.Obtained)
	switch {
	case age == young && life >= 0 && life < newTime(e.Token):
		if err := s.moved(ctx, e, c); err != nil {
			return err
		}
		return s.needed(status.TokenRejected, e, nil)
	case e.Token.Refresh == "":
		if err := s.moved(ctx, e, c); err != nil {
			return err
		}
		why := ended(e)
		_, err := s.store.swap(ctx, s.key, e.Generation, func(e *entry) { e.Token.Access, e.Ended = "", why })
		return errors.Join(s.needed(why, e, nil), err)
	}
	_, err := s.refreshedOrNeeded(ctx, e, &c)
	return err
}

// newTime returns how long after its issue the token is new.
func newTime(t oauth.Token) time.Duration {
	if t.Expires.IsZero() {
		return youngTime
	}
	return min(youngTime, t.Expires.Sub(t.Obtained)/2)
}

// moved returns an error if the server trusts another issuer than that of the login.
func (s *Source) moved(ctx context.Context, e *entry, c oauth.Challenge) error {
	found, err := s.discovered(ctx, c, true)
	if err != nil || !found.Asserted || found.Issuer.ID == e.Found.Issuer.ID {
		return nil // without an answer, the issuer is the same as before
	}
	s.note(status.LoginExpired, e)
	return &NeededError{
		Server: s.server.Name, Why: status.LoginExpired, Issuer: found.Issuer.ID,
		Err: fmt.Errorf("the server accepts tokens of %s now, and the login is one at %s", found.Issuer.ID, e.Found.Issuer.ID),
	}
}

func (s *Source) refreshedOrNeeded(ctx context.Context, e *entry, c *oauth.Challenge) (string, error) {
	if e.Token.Refresh == "" {
		return "", s.needed(ended(e), e, nil)
	}
	return s.refreshed(ctx, e, c)
}

// discovered returns who issues tokens for the server. again asks though that is known.
func (s *Source) discovered(ctx context.Context, c oauth.Challenge, again bool) (*oauth.Found, error) {
	if found := s.known(); found != nil && !again {
		return found, nil
	}
	result, err := s.fly(ctx, "discover", discoverTime, func(ctx context.Context) (any, error) {
		return s.issuer.discover(ctx, s.server, c)
	})
	if err != nil {
		return nil, fmt.Errorf("find the issuer of its tokens: %w", err)
	}
	found := result.(*oauth.Found)
	if !found.Asserted && found.Issuer.TokenEndpoint == "" {
		return nil, ErrNoOAuth
	}
	s.learn(found)
	return found, nil
}

// fly runs do in a goroutine of the source, unless a flight with the name is under way, and waits
// for its end or that of ctx. do has a context of its own: its caller may end, and others wait for
// the same.
func (s *Source) fly(ctx context.Context, name string, limit time.Duration, do func(context.Context) (any, error)) (any, error) {
	select {
	case r := <-s.start(name, limit, do):
		return r.Val, r.Err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

func (s *Source) start(name string, limit time.Duration, do func(context.Context) (any, error)) <-chan singleflight.Result {
	return s.flights.DoChan(name, func() (any, error) {
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			return nil, errClosing
		}
		s.flown.Add(1)
		s.mu.Unlock()
		defer s.flown.Done()
		ctx, cancel := context.WithTimeout(s.ctx, limit)
		defer cancel()
		return do(ctx)
	})
}

var errClosing = errors.New("the router ends")

// look returns the login in the store, nil if there is none.
func (s *Source) look(ctx context.Context, fresh bool) (*entry, error) {
	e, err := s.store.login(ctx, s.key, fresh)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := mark(e); now != s.seen { // there is another token
		s.seen, s.reason = now, ""
	}
	if e != nil && e.Token.Access == "" {
		s.reason = ended(e)
	}
	return e, nil
}

// note keeps why a login is needed.
func (s *Source) note(why status.LoginReason, e *entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reason, s.seen = why, mark(e)
}

func (s *Source) needed(why status.LoginReason, e *entry, err error) *NeededError {
	s.note(why, e)
	return &NeededError{Server: s.server.Name, Why: why, Issuer: e.Found.Issuer.ID, Err: err}
}

// ended returns why a login without a valid token has ended.
func ended(e *entry) status.LoginReason {
	if e.Ended != "" {
		return e.Ended
	}
	return status.LoginExpired
}

// mark identifies the token of a login.
func mark(e *entry) string {
	if e == nil {
		return ""
	}
	return e.ID + " " + e.Generation
}

// An age is how old a token is.
type age int

const (
	young  age = iota // or of unknown life
	old               // valid, but to be refreshed
	tooOld            // not valid any more
)

// ageOf goes by the wall clock, which goes on while the machine sleeps.
func ageOf(t oauth.Token, now time.Time) age {
	switch {
	case t.Expires.IsZero():
		return young
	case !now.Before(t.Expires):
		return tooOld
	case now.Sub(t.Obtained) >= t.Expires.Sub(t.Obtained)*4/5:
		return old
	}
	return young
}

func wall() time.Time { return time.Now().Round(0) }

// known returns what was found out about the server's issuer since the process began, nil if
// nothing was.
func (s *Source) known() *oauth.Found {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.found
}

// learn keeps what was found out about the server's issuer.
func (s *Source) learn(f *oauth.Found) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found = f
}

// why says why a login is needed, as far as is known; "" if none is.
func (s *Source) why() status.LoginReason {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reason
}

// saved returns the server's login in the store, nil if there is none or it has ended.
func (s *Source) saved(ctx context.Context) (*record, error) {
	e, err := s.look(ctx, false)
	if err != nil || e == nil || e.Token.Access == "" {
		return nil, err
	}
	return &e.record, nil
}

// save replaces the server's login in the store, under the lock of refreshes. Changed fires, and
// no login is needed any more.
func (s *Source) save(ctx context.Context, r record) error {
	r.Client = s.withoutSecret(r.Client)
	if _, err := s.store.put(ctx, s.key, r); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reason, s.failed = "", nil
	return nil
}

// withoutSecret removes a secret that the settings have: it has one place.
func (s *Source) withoutSecret(c oauth.Client) oauth.Client {
	if !c.Registered && c.ID == s.server.Settings.ClientID {
		c.Secret = ""
	}
	return c
}

// forget removes the server's login from the store, under the lock of refreshes, and returns it;
// nil if there was none. Changed fires.
func (s *Source) forget(ctx context.Context) (*record, error) {
	e, err := s.store.remove(ctx, s.key)
	if err != nil || e == nil || e.Token.Access == "" && e.Token.Refresh == "" {
		return nil, err
	}
	e.Client = withSecret(s.server, e.Client)
	return &e.record, nil
}

// withSecret is the reverse of withoutSecret.
func withSecret(s oauth.Server, c oauth.Client) oauth.Client {
	if !c.Registered && c.ID == s.Settings.ClientID && c.Secret == "" {
		c.Secret = s.Settings.ClientSecret
	}
	return c
}

// client returns the client that was registered with the issuer before, nil if there is none.
func (s *Source) client(ctx context.Context, issuer string) (*oauth.Client, error) {
	return s.store.client(ctx, issuer, origin(s.server.URL), Shared)
}

// keepClient keeps the client that was registered with the issuer. The zero value removes it.
func (s *Source) keepClient(ctx context.Context, issuer string, c oauth.Client) error {
	return s.store.putClient(ctx, issuer, origin(s.server.URL), Shared, c)
}
