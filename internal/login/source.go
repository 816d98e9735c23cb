package login

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/singleflight"

	"github.com/mcp-metarouter/metarouter/internal/oauth"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

// ErrNoOAuth is a server that refuses requests without a token and describes no issuer: no login
// can give it one.
var ErrNoOAuth = errors.New("the server describes no issuer of tokens")

// A Source gives requests to one server their token. Its methods may be called by many goroutines
// at once.
type Source struct {
	account
	life    *signal.Life
	http    *http.Client
	flights singleflight.Group          // discoveries and refreshes, which go on if their callers end
	found   atomic.Pointer[oauth.Found] // the issuer that was found since the process began; nil before
	own     atomic.Pointer[issued]      // the last token of a machine
	outage  atomic.Pointer[outage]      // may be nil
}

const (
	maxSteps  = 3   // logins for the same scopes
	maxScopes = 100 // sets of scopes that are counted
)

// newSource returns the source of the server's tokens. c asks its issuer.
func newSource(o Options, server oauth.Server, c *http.Client, l *signal.Life) *Source {
	log := o.Log.With(zap.String("server", server.Name))
	s := &Source{http: c, life: l, account: account{server: server, store: o.Store, key: key(server), log: log, steps: make(map[string][]string)}}
	s.own.Store(new(issued))
	return s
}

// start runs the task in a goroutine, unless one with the name is under way. The task has a context of its own: others may
// wait for the same, and the answer of an issuer must not be lost with its caller, nor with the router at once.
func (s *Source) start(name string, limit time.Duration, task func(context.Context) (any, error)) <-chan singleflight.Result {
	return s.flights.DoChan(name, func() (any, error) {
		if !s.life.Begin() {
			return nil, errors.New("the router ends")
		}
		defer s.life.Work.Done()
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		defer context.AfterFunc(s.life.Context(), func() { time.AfterFunc(closeTime, cancel) })()
		return task(ctx)
	})
}

// await returns the result of a task that start has started, or the cause of ctx's end.
func await[T any](ctx context.Context, task <-chan singleflight.Result) (result T, err error) {
	select {
	case r := <-task:
		result, _ = r.Val.(T)
		return result, r.Err
	case <-ctx.Done():
		return result, context.Cause(ctx)
	}
}

// discoverTime bounds the search for the issuer of a server's tokens.
const discoverTime = 30 * time.Second

// find returns the issuer of the server's tokens. again asks the server though the issuer is known.
func (s *Source) find(ctx context.Context, c oauth.Challenge, again bool) (*oauth.Found, error) {
	if found := s.found.Load(); found != nil && !again {
		return found, nil
	}
	task := func(ctx context.Context) (any, error) { return oauth.Discover(ctx, s.http, s.server, c) }
	found, err := await[*oauth.Found](ctx, s.start("discover", discoverTime, task))
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, fmt.Errorf("find its issuer: %w", err)
	case found.Issuer.TokenEndpoint == "":
		return nil, ErrNoOAuth
	}
	s.found.Store(found)
	return found, nil
}

// Token returns the access token for a request, or "" without a login: then the request is
// sent without, and the server's refusal says how to log in. It refreshes a token that is about
// to expire. The error is a [*NeededError] if the token has expired and a person must log in, or
// if its issuer can't be reached; otherwise the logins can't be read.
func (s *Source) Token(ctx context.Context) (string, error) {
	if s.server.Settings.Grant == oauth.ClientCredentials {
		return ownToken(ctx, s)
	}
	l, err := s.read(ctx, false)
	if err != nil || l == nil {
		return "", err
	}
	noteUse(s, l)
	switch age := ageOf(l.Token, wall()); {
	case l.Token.Access == "":
		return "", s.needed(l.Ended, l, nil)
	case age == young, age == old && l.Token.Refresh == "":
		return l.Token.Access, nil
	case age == old:
		if s.outage.Load().recent() == nil {
			s.startRefresh(l, nil) // an error shows when the token has expired
		}
		return l.Token.Access, nil
	}
	return s.nextToken(ctx, l, nil)
}

// usedTime is how exactly the store knows when a principal has used a login last.
const usedTime = 12 * time.Hour

// noteUse notes that the principal has used the login. It does not wait.
func noteUse(s *Source, l *storedLogin) {
	if l.Principal == "" || wall().Sub(l.Used) < usedTime {
		return
	}
	s.start("used "+l.ID, writeTime, func(ctx context.Context) (any, error) {
		return s.store.swap(ctx, s.key, l.Generation, func(l *storedLogin) { l.Used = wall() })
	})
}

// Login returns a text that tells the login from a later one, whatever its token; "" without a login.
func (s *Source) Login(ctx context.Context) (string, error) {
	l, err := s.read(ctx, false)
	if err != nil || l == nil {
		return "", err
	}
	return l.ID, nil
}

// Permit returns an error if the client of the settings was used at another issuer, and keeps that it is used at this one.
func (s *Source) Permit(ctx context.Context, issuer string) error { return s.permit(ctx, issuer, true) }

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
		return replaceOwn(ctx, s, token, challenge, forbidden)
	}
	l, err := s.read(ctx, true)
	switch {
	case err != nil:
		return err
	case l == nil:
		found, err := s.find(ctx, challenge, false)
		if err != nil {
			return err
		}
		s.note(status.NeverLoggedIn, nil)
		return &NeededError{Server: s.server.Name, Why: status.NeverLoggedIn, Issuer: found.Issuer.ID, Scopes: challenge.Scopes}
	case l.Token.Access != "" && l.Token.Access != token && ageOf(l.Token, wall()) != tooOld:
		return nil
	case token == "":
		return s.needed(ended(l), l, nil)
	case forbidden:
		return s.stepUp(l, challenge)
	}
	return s.replaceRefused(ctx, l, token, challenge)
}

// stepUp returns the error of a login that does not permit a request.
func (s *Source) stepUp(l *storedLogin, c oauth.Challenge) error {
	if tries := s.count(c.Scopes, l.ID); tries >= maxSteps {
		return fmt.Errorf("the server asks for the scopes %q again though %d logins asked for them; the issuer does not grant them to you, or the server never accepts them",
			strings.Join(c.Scopes, " "), tries-1)
	}
	err := s.needed(status.ScopeMissing, l, nil)
	err.Scopes = c.Scopes
	return err
}

// count returns how many logins did not suffice for the scopes, with this one.
func (s *Source) count(scopes []string, login string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := strings.Join(scopes, " ")
	makeRoom(s.steps, name, maxScopes)
	if tried := s.steps[name]; len(tried) < maxSteps && !slices.Contains(tried, login) {
		s.steps[name] = append(tried, login)
	}
	return len(s.steps[name])
}

// Changed returns a channel that is closed when a person has logged in or out, in this process or
// in another one, after the last result of Token or Refused. It is closed, too, when another router
// could refresh the token. It is not closed any more when ctx has ended.
func (s *Source) Changed(ctx context.Context) <-chan struct{} {
	seen, _ := s.state()
	changed := make(chan struct{})
	s.life.Go(func() {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(s.life.Context(), cancel)()
		if s.awaitOther(ctx, seen) {
			close(changed)
		}
	})
	return changed
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
