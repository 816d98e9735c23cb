package login

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
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

// nextToken returns the token that follows on the token of l. It waits for a refresh that another caller
// has started. challenge is the server's when it refused the token, nil if it did not.
func (s *Source) nextToken(ctx context.Context, l *storedLogin, challenge *oauth.Challenge) (string, error) {
	if l.Token.Refresh == "" {
		return "", s.needed(ended(l), l, nil)
	}
	if failed := s.outage.Load().recent(); failed != nil {
		return "", s.needed(status.IssuerUnreachable, l, failed)
	}
	return await[string](ctx, s.startRefresh(l, challenge))
}

// startRefresh refreshes the token in a goroutine of the source, unless that is under way.
func (s *Source) startRefresh(l *storedLogin, challenge *oauth.Challenge) <-chan singleflight.Result {
	return s.start("refresh "+l.Generation, refreshTime, func(ctx context.Context) (any, error) {
		if challenge != nil {
			if err := s.moved(ctx, l, *challenge); err != nil {
				return nil, err
			}
		}
		now, err := s.refresh(ctx, l)
		if err != nil {
			return nil, err
		}
		s.note("", now)
		return now.Token.Access, nil
	})
}

// replaceRefused replaces the token of the login, after the server has refused token.
func (s *Source) replaceRefused(ctx context.Context, l *storedLogin, token string, c oauth.Challenge) error {
	if l.Token.Access != token { // the stored one has expired
		_, err := s.nextToken(ctx, l, nil)
		return err
	}
	now := wall()
	newTime, life := youngTime, now.Sub(l.Token.Obtained)
	if !l.Token.Expires.IsZero() {
		newTime = min(youngTime, l.Token.Expires.Sub(l.Token.Obtained)/2)
	}
	isNew := ageOf(l.Token, now) == young && life >= 0 && life < newTime
	if !isNew && l.Token.Refresh != "" {
		_, err := s.nextToken(ctx, l, &c)
		return err
	}
	if err := s.moved(ctx, l, c); err != nil {
		return err
	}
	if isNew {
		return s.needed(status.TokenRejected, l, nil)
	}
	why := ended(l)
	_, err := s.store.swap(ctx, s.key, l.Generation, func(l *storedLogin) { l.Token.Access, l.Ended = "", why })
	return errors.Join(s.needed(why, l, nil), err)
}

// moved returns an error if the server trusts another issuer than the login's.
func (s *Source) moved(ctx context.Context, l *storedLogin, c oauth.Challenge) error {
	found, err := s.find(ctx, c, true)
	if err != nil || !found.Asserted || found.Issuer.ID == l.Found.Issuer.ID {
		return nil // without an answer, the issuer is the same as before
	}
	moved := s.needed(status.LoginExpired, l,
		fmt.Errorf("the server accepts tokens of %s now, and the login is one at %s", found.Issuer.ID, l.Found.Issuer.ID))
	moved.Issuer = found.Issuer.ID
	return moved
}

// refresh replaces the token of the login, or finds that another router has done so, and returns
// the login with a valid token.
func (s *Source) refresh(ctx context.Context, l *storedLogin) (*storedLogin, error) {
	store := s.store
	unlock, err := store.lock(ctx, l.ID)
	if err != nil {
		return nil, err
	}
	defer unlock()
	now, err := store.login(ctx, s.key, true)
	switch {
	case err != nil:
		return nil, err
	case now == nil || now.ID != l.ID:
		store.dropLock(l.ID)
		return s.usable(now)
	case now.Generation != l.Generation:
		return s.usable(now)
	case now.Token.Refresh == "":
		return nil, s.needed(ended(now), now, nil)
	}
	interrupted := now.Refreshing
	if !interrupted {
		if now, err = store.swap(ctx, s.key, l.Generation, func(l *storedLogin) { l.Refreshing = true }); err != nil {
			return nil, err
		}
		if now == nil || now.Generation != l.Generation {
			return s.usable(now)
		}
	}
	token, err := grantor(s.http, s.server.Settings, now.Found, withSecret(s.server, now.Client)).Refresh(ctx, now.Token)
	if err != nil {
		return nil, refreshFailed(ctx, s, now, interrupted, err)
	}
	s.outage.Store(nil)
	return s.change(ctx, now, func(l *storedLogin) {
		l.Token, l.Generation, l.Refreshing, l.Ended, l.Used = token, rand.Text(), false, "", wall()
	})
}

// refreshFailed keeps the reason why the token of the login was not refreshed.
func refreshFailed(ctx context.Context, s *Source, l *storedLogin, interrupted bool, err error) error {
	refusal, refused := errors.AsType[*oauth.Refusal](err)
	switch {
	case refused && refusal.Code == "invalid_grant":
		return loginLost(ctx, s, l, interrupted, err)
	case refusesClient(err):
		if l.Client.Registered {
			bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTime)
			s.dropClient(bounded, l.Found.Issuer.ID)
			cancel()
		}
		return loginLost(ctx, s, l, false, err)
	}
	s.beginOutage(err)
	if refused && refusal.Status < http.StatusInternalServerError || errors.Is(err, oauth.ErrNotSent) { // it issued nothing
		if _, err := s.change(ctx, l, func(l *storedLogin) { l.Refreshing = interrupted }); err != nil {
			s.log.Warn("a login can't be written", zap.Error(err))
		}
	}
	s.log.Info("a token can't be refreshed now", zap.String("issuer", l.Found.Issuer.ID), zap.Error(err))
	return s.needed(status.IssuerUnreachable, l, err)
}

// loginLost ends a login because the issuer refuses its refresh token. Its access token is used until it
// expires.
func loginLost(ctx context.Context, s *Source, l *storedLogin, interrupted bool, err error) error {
	s.outage.Store(nil)
	why := status.LoginExpired
	if interrupted {
		why = status.RefreshInterrupted
	}
	s.log.Info("a login has ended", zap.String("issuer", l.Found.Issuer.ID), zap.String("why", string(why)), zap.Error(err))
	_, failed := s.change(ctx, l, func(l *storedLogin) {
		l.Token.Refresh, l.Refreshing, l.Ended = "", false, why
		if ageOf(l.Token, wall()) == tooOld {
			l.Token.Access = ""
		}
	})
	return s.needed(why, l, errors.Join(err, failed))
}

// An outage is a time in which the issuer does not answer, and is left alone.
type outage struct {
	err   error // of the last request
	until time.Time
}

func (s *Source) beginOutage(err error) { s.outage.Store(&outage{err, time.Now().Add(retryTime)}) }

// recent returns the error after which the issuer is left alone, nil if it is not left alone. o may be nil.
func (o *outage) recent() error {
	if o != nil && time.Now().Before(o.until) {
		return o.err
	}
	return nil
}
