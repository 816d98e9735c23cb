package supervisor

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/oauth"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

const (
	exchangeTime  = 30 * time.Second // for which an issuer is asked
	exchangeRest  = 3 * time.Second  // for which it is left alone after a failure
	exchangeCheck = time.Minute      // after which it is asked again whether a session's access token is still valid
	exchangeSoon  = 30 * time.Second // before its end, or a fifth of its life if that is less, a token is replaced
)

// errTokenOver ends the sessions of an access token.
var errTokenOver = errors.New("the access token of its user is not valid any more; send the request again with another one")

// An exchange is the source of the tokens of one session, which are issued in exchange for the access token of its user (RFC 8693).
// Each access token has a session of its own, and the session alone keeps what it got: so no token passes from one principal, or
// from one access token, to another.
type exchange struct {
	ask    oauth.Exchange
	proves atomic.Pointer[func(context.Context) bool] // as Proves of [session.Subject], of the latest request: those of old rules prove nothing
	turn   *semaphore.Weighted                        // of 1, for the fields below

	token  oauth.Token // zero before the first one
	again  bool        // it replaced one that the server had refused
	failed error       // of the last request; nil if it succeeded
	asked  time.Time
}

// newExchange returns the exchange of the user's token for one for the server of the entry.
func newExchange(entry config.Exchange, s session.Subject) *exchange {
	e := &exchange{turn: semaphore.NewWeighted(1), ask: oauth.Exchange{
		Issuer: s.Issuer, ClientID: s.ClientID, ClientSecret: s.ClientSecret, Subject: s.Token,
		Audience: entry.Audience, Resource: entry.Resource, Scopes: entry.Scopes,
	}}
	e.proves.Store(&s.Proves)
	return e
}

// Token implements [transport.Tokens].
func (e *exchange) Token(ctx context.Context) (string, error) {
	if e.turn.Acquire(ctx, 1) != nil {
		return "", context.Cause(ctx)
	}
	defer e.turn.Release(1)
	now, t := time.Now().Round(0), e.token
	if t.Access != "" && (t.Expires.IsZero() || now.Before(t.Expires.Add(-min(exchangeSoon, t.Expires.Sub(t.Obtained)/5)))) {
		return t.Access, nil
	}
	err := e.next(ctx, false)
	if err != nil && now.Before(t.Expires) {
		return t.Access, nil
	}
	return e.token.Access, err
}

// Refused implements [transport.Tokens]. A refused token is replaced once.
func (e *exchange) Refused(ctx context.Context, token string, resp *http.Response) error {
	if e.turn.Acquire(ctx, 1) != nil {
		return context.Cause(ctx)
	}
	defer e.turn.Release(1)
	switch {
	case resp.StatusCode == http.StatusForbidden:
		return errors.New(`the token that was issued in exchange for yours does not permit it; ask for the right, or an administrator for another "scope" in "exchange"`)
	case e.token.Access != token:
		return nil
	case e.again && time.Since(e.token.Obtained) < exchangeSoon:
		return fmt.Errorf(`the server refuses what %s issues in exchange for your token; an administrator must correct "exchange" in its entry`, e.ask.Issuer)
	}
	e.token = oauth.Token{}
	return e.next(ctx, true)
}

// next gets another token. It is the caller's turn.
func (e *exchange) next(ctx context.Context, again bool) error {
	if e.failed != nil && time.Since(e.asked) < exchangeRest {
		return e.failed
	}
	if !e.isProven(ctx) {
		return errTokenOver
	}
	bounded, cancel := context.WithTimeout(ctx, exchangeTime)
	defer cancel()
	t, err := e.ask.Token(bounded)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if e.failed, e.asked = err, time.Now(); err != nil {
		e.failed = fmt.Errorf("get a token from %s in exchange for yours: %w", e.ask.Issuer, err)
		return e.failed
	}
	e.token, e.again = t, again
	return nil
}

// isProven reports whether the access token is still valid. e may be nil.
func (e *exchange) isProven(ctx context.Context) bool {
	if e == nil {
		return true
	}
	proves := *e.proves.Load()
	return proves == nil || proves(ctx)
}

// exchangeFor returns the exchange for the caller's session with a server, and a key that tells access tokens apart without revealing
// them; nil and "" if the entry says nothing of it.
func exchangeFor(ctx context.Context, o *opener, entry config.Server, who session.Caller) (e *exchange, key string, err error) {
	if entry.Exchange == nil {
		return nil, "", nil
	}
	s := session.SubjectOf(ctx, who.Principal)
	if s.Token == "" {
		return nil, "", o.unavailable(status.NeedsAuth, `it takes tokens that are issued in exchange for the access token of its user, and you have none: stdio clients, fixed tokens, certificates and the dashboard can't use it; connect over HTTP with an access token of one of "issuers"`)
	}
	key = fmt.Sprintf("\x00%x", sha256.Sum256([]byte(s.Issuer+"\x00"+s.ClientID+"\x00"+s.ClientSecret+"\x00"+s.Token)))
	e = newExchange(*entry.Exchange, s)
	if entry.Exchange.Type == "id-jag" {
		e.ask.Server = func(ctx context.Context) (oauth.Server, error) {
			resolved, err := o.secrets.Resolve(ctx, entry)
			return loginServer(resolved), err
		}
		if o.sources != nil {
			e.ask.Permit = func(ctx context.Context, s oauth.Server, issuer string) error {
				return o.sources(s).Permit(ctx, issuer)
			}
		}
	}
	return e, key, nil
}
