package login

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/singleflight"

	"github.com/mcp-metarouter/metarouter/internal/oauth"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

const (
	// refreshTime bounds a refresh with the wait for other routers.
	refreshTime = 30 * time.Second
	// writeTime bounds the attempts to write a new token, which would be lost otherwise.
	writeTime = 10 * time.Second
	// retryTime is how long after a failure the issuer is left alone.
	retryTime = 3 * time.Second
	// youngTime is how long after its issue a token is new: if the server refuses it then, the
	// next one would not be better. For one that lives less than a minute it is half of its life,
	// since issuers count whole seconds.
	youngTime = 30 * time.Second
)

// A refresher replaces the token of a login.
type refresher struct {
	account *account
	finder  *finder
	tasks   *tasks
	outage  *outage
	issuer  issuer
	log     *zap.Logger
}

// startEarly refreshes the token in the background. An error shows when the token has expired.
func (r *refresher) startEarly(l *storedLogin) {
	if r.outage.recent() == nil {
		r.start(l, nil)
	}
}

// token returns the token that follows on the token of l. It waits for a refresh that another caller
// has started. challenge is the server's when it refused the token, nil if it did not.
func (r *refresher) token(ctx context.Context, l *storedLogin, challenge *oauth.Challenge) (string, error) {
	if l.Token.Refresh == "" {
		return "", r.account.needed(ended(l), l, nil)
	}
	if failed := r.outage.recent(); failed != nil {
		return "", r.account.needed(status.IssuerUnreachable, l, failed)
	}
	select {
	case result := <-r.start(l, challenge):
		token, _ := result.Val.(string)
		return token, result.Err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// start refreshes the token in a goroutine of the source, unless that is under way. The
// refresh has a context of its own, since the issuer's answer must not be lost with its caller.
func (r *refresher) start(l *storedLogin, challenge *oauth.Challenge) <-chan singleflight.Result {
	return r.tasks.start("refresh "+l.Generation, refreshTime, func(ctx context.Context) (any, error) {
		if challenge != nil {
			if err := r.moved(ctx, l, *challenge); err != nil {
				return nil, err
			}
		}
		now, err := r.refresh(ctx, l)
		if err != nil {
			return nil, err
		}
		r.account.note("", now)
		return now.Token.Access, nil
	})
}

// replaceRefused replaces the token of the login, after the server has refused token.
func (r *refresher) replaceRefused(ctx context.Context, l *storedLogin, token string, c oauth.Challenge) error {
	if l.Token.Access != token { // the stored one has expired
		_, err := r.token(ctx, l, nil)
		return err
	}
	now := wall()
	age, life := ageOf(l.Token, now), now.Sub(l.Token.Obtained)
	isNew := age == young && life >= 0 && life < newTime(l.Token)
	if !isNew && l.Token.Refresh != "" {
		_, err := r.token(ctx, l, &c)
		return err
	}
	if err := r.moved(ctx, l, c); err != nil {
		return err
	}
	if isNew {
		return r.account.needed(status.TokenRejected, l, nil)
	}
	why := ended(l)
	_, err := r.account.store.swap(ctx, r.account.key, l.Generation, func(l *storedLogin) { l.Token.Access, l.Ended = "", why })
	return errors.Join(r.account.needed(why, l, nil), err)
}

// newTime returns how long after its issue the token is new.
func newTime(t oauth.Token) time.Duration {
	if t.Expires.IsZero() {
		return youngTime
	}
	return min(youngTime, t.Expires.Sub(t.Obtained)/2)
}

// moved returns an error if the server trusts another issuer than the login's.
func (r *refresher) moved(ctx context.Context, l *storedLogin, c oauth.Challenge) error {
	found, err := r.finder.find(ctx, c, true)
	if err != nil || !found.Asserted || found.Issuer.ID == l.Found.Issuer.ID {
		return nil // without an answer, the issuer is the same as before
	}
	moved := r.account.needed(status.LoginExpired, l,
		fmt.Errorf("the server accepts tokens of %s now, and the login is one at %s", found.Issuer.ID, l.Found.Issuer.ID))
	moved.Issuer = found.Issuer.ID
	return moved
}

// refresh replaces the token of the login, or finds that another router has done so, and returns
// the login with a valid token.
func (r *refresher) refresh(ctx context.Context, l *storedLogin) (*storedLogin, error) {
	store := r.account.store
	unlock, err := store.lock(ctx, l.ID)
	if err != nil {
		return nil, err
	}
	defer unlock()
	now, err := store.login(ctx, r.account.key, true)
	switch {
	case err != nil:
		return nil, err
	case now == nil || now.ID != l.ID:
		store.dropLock(l.ID)
		return r.account.usable(now)
	case now.Generation != l.Generation:
		return r.account.usable(now)
	case now.Token.Refresh == "":
		return nil, r.account.needed(ended(now), now, nil)
	}
	interrupted := now.Refreshing
	if !interrupted {
		if now, err = store.swap(ctx, r.account.key, l.Generation, func(l *storedLogin) { l.Refreshing = true }); err != nil {
			return nil, err
		}
		if now == nil || now.Generation != l.Generation {
			return r.account.usable(now)
		}
	}
	token, err := r.issuer.refresh(ctx, r.account.server, now.record)
	if err != nil {
		return nil, r.failed(ctx, now, interrupted, err)
	}
	r.outage.end()
	return r.account.change(ctx, now, func(l *storedLogin) {
		l.Token, l.Generation, l.Refreshing, l.Ended = token, rand.Text(), false, ""
	})
}

// failed keeps the reason why the token of the login was not refreshed.
func (r *refresher) failed(ctx context.Context, l *storedLogin, interrupted bool, err error) error {
	refusal, refused := errors.AsType[*oauth.Refusal](err)
	switch {
	case refused && refusal.Code == "invalid_grant":
		return r.lost(ctx, l, interrupted, err)
	case refusesClient(err):
		if l.Client.Registered {
			bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTime)
			r.account.dropClient(bounded, l.Found.Issuer.ID)
			cancel()
		}
		return r.lost(ctx, l, false, err)
	}
	r.outage.begin(err)
	if refused && refusal.Status < http.StatusInternalServerError || errors.Is(err, oauth.ErrNotSent) { // it issued nothing
		if _, err := r.account.change(ctx, l, func(l *storedLogin) { l.Refreshing = interrupted }); err != nil {
			r.log.Warn("a login can't be written", zap.Error(err))
		}
	}
	r.log.Info("a token can't be refreshed now", zap.String("issuer", l.Found.Issuer.ID), zap.Error(err))
	return r.account.needed(status.IssuerUnreachable, l, err)
}

// lost ends a login because the issuer refuses its refresh token. Its access token is used until it
// expires.
func (r *refresher) lost(ctx context.Context, l *storedLogin, interrupted bool, err error) error {
	r.outage.end()
	why := status.LoginExpired
	if interrupted {
		why = status.RefreshInterrupted
	}
	r.log.Info("a login has ended", zap.String("issuer", l.Found.Issuer.ID), zap.String("why", string(why)), zap.Error(err))
	_, failed := r.account.change(ctx, l, func(l *storedLogin) {
		l.Token.Refresh, l.Refreshing, l.Ended = "", false, why
		if ageOf(l.Token, wall()) == tooOld {
			l.Token.Access = ""
		}
	})
	return r.account.needed(why, l, errors.Join(err, failed))
}

// An outage is a time in which the issuer does not answer, and is left alone. The zero value is no
// outage.
type outage struct {
	mu    sync.Mutex // guards the fields below
	err   error      // of the last request; nil if it was answered
	until time.Time
}

// recent returns the error after which the issuer is left alone, nil if it is not left alone.
func (o *outage) recent() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if time.Now().Before(o.until) {
		return o.err
	}
	return nil
}

func (o *outage) begin(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.err, o.until = err, time.Now().Add(retryTime)
}

func (o *outage) end() { o.begin(nil) }

// remote asks an issuer over HTTP.
type remote struct{ http *http.Client }

func (r remote) discover(ctx context.Context, s oauth.Server, c oauth.Challenge) (*oauth.Found, error) {
	return oauth.Discover(ctx, r.http, s, c)
}

func (r remote) refresh(ctx context.Context, s oauth.Server, of record) (oauth.Token, error) {
	return grantor(r.http, s.Settings, of.Found, withSecret(s, of.Client)).Refresh(ctx, of.Token)
}

func (r remote) credentials(ctx context.Context, s oauth.Server, f oauth.Found, scopes []string) (oauth.Token, error) {
	client, err := oauth.Identify(ctx, r.http, s, f.Issuer, oauth.Redirect{}, nil)
	if err != nil {
		return oauth.Token{}, err
	}
	return grantor(r.http, s.Settings, f, client).ClientCredentials(ctx, scopes)
}
