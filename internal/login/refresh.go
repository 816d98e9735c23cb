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
)

// refreshSoon refreshes the token in the background. An error shows when the token has expired.
func (s *Source) refreshSoon(e *entry) {
	if s.waits() == nil {
		s.startRefresh(e, nil)
	}
}

// refreshed returns the token that follows on that of e. It waits for a refresh that another caller
// has started. challenge is that of the server's refusal of e's token, nil without one.
func (s *Source) refreshed(ctx context.Context, e *entry, challenge *oauth.Challenge) (string, error) {
	if failed := s.waits(); failed != nil {
		return "", s.needed(status.IssuerUnreachable, e, failed)
	}
	select {
	case r := <-s.startRefresh(e, challenge):
		if r.Err != nil {
			return "", r.Err
		}
		token, _ := r.Val.(string)
		return token, nil
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// waits returns why the issuer is left alone for a while, nil if it is not.
func (s *Source) waits() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.failed != nil && time.Now().Before(s.retry) {
		return s.failed
	}
	return nil
}

// startRefresh refreshes the token in a goroutine of the source, unless that is under way. The
// refresh has a context of its own, since the issuer's answer must not be lost with its caller.
func (s *Source) startRefresh(e *entry, challenge *oauth.Challenge) <-chan singleflight.Result {
	return s.start("refresh "+e.Generation, refreshTime, func(ctx context.Context) (any, error) {
		if challenge != nil {
			if err := s.moved(ctx, e, *challenge); err != nil {
				return nil, err
			}
		}
		now, err := s.refresh(ctx, e)
		if err != nil {
			return nil, err
		}
		s.note("", now)
		return now.Token.Access, nil
	})
}

// refresh replaces the token of the login, or finds that another router has done so, and returns
// the login with a valid token.
func (s *Source) refresh(ctx context.Context, e *entry) (*entry, error) {
	unlock, err := s.store.lock(ctx, e.ID)
	if err != nil {
		return nil, err
	}
	defer unlock()
	now, err := s.store.login(ctx, s.key, true)
	switch {
	case err != nil:
		return nil, err
	case now == nil || now.ID != e.ID:
		s.store.dropLock(e.ID)
		return s.replaced(now)
	case now.Generation != e.Generation:
		return s.replaced(now)
	case now.Token.Refresh == "":
		return nil, s.needed(ended(now), now, nil)
	}
	interrupted := now.Refreshing
	if !interrupted {
		if now, err = s.store.swap(ctx, s.key, e.Generation, func(e *entry) { e.Refreshing = true }); err != nil {
			return nil, err
		}
		if now == nil || now.Generation != e.Generation {
			return s.replaced(now)
		}
	}
	token, err := s.issuer.refresh(ctx, s.server, now.record)
	if err != nil {
		return nil, s.notRefreshed(now, interrupted, err)
	}
	s.reached(nil)
	return s.write(now, func(e *entry) {
		e.Token, e.Generation, e.Refreshing, e.Ended = token, rand.Text(), false, ""
	})
}

// replaced returns the login that has replaced another one.
func (s *Source) replaced(now *entry) (*entry, error) {
	switch {
	case now == nil:
		s.note(status.NeverLoggedIn, nil)
		return nil, &NeededError{Server: s.server.Name, Why: status.NeverLoggedIn}
	case now.Token.Access == "" || ageOf(now.Token, wall()) == tooOld && now.Token.Refresh == "":
		return nil, s.needed(ended(now), now, nil)
	}
	return now, nil
}

// notRefreshed keeps why the token of the login was not refreshed.
func (s *Source) notRefreshed(e *entry, interrupted bool, err error) error {
	refusal, refused := errors.AsType[*oauth.Refusal](err)
	switch {
	case refused && refusal.Code == "invalid_grant":
		return s.lost(e, interrupted, err)
	case refused && (refusal.Code == "invalid_client" || refusal.Code == "unauthorized_client"):
		if e.Client.Registered {
			s.dropClient(e)
		}
		return s.lost(e, false, err)
	}
	s.reached(err)
	if refused && refusal.Status < http.StatusInternalServerError || errors.Is(err, oauth.ErrNotSent) { // it issued nothing
		if _, err := s.write(e, func(e *entry) { e.Refreshing = interrupted }); err != nil {
			s.log.Warn("a login can't be written", zap.Error(err))
		}
	}
	s.log.Info("a token can't be refreshed now", zap.String("issuer", e.Found.Issuer.ID), zap.Error(err))
	return s.needed(status.IssuerUnreachable, e, err)
}

// lost ends a login whose refresh token the issuer refuses. Its access token is used until it
// expires.
func (s *Source) lost(e *entry, interrupted bool, err error) error {
	s.reached(nil)
	why := status.LoginExpired
	if interrupted {
		why = status.RefreshInterrupted
	}
	s.log.Info("a login has ended", zap.String("issuer", e.Found.Issuer.ID), zap.String("why", string(why)), zap.Error(err))
	_, failed := s.write(e, func(e *entry) {
		e.Token.Refresh, e.Refreshing, e.Ended = "", false, why
		if ageOf(e.Token, wall()) == tooOld {
			e.Token.Access = ""
		}
	})
	return s.needed(why, e, errors.Join(err, failed))
}

func (s *Source) dropClient(e *entry) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), writeTime)
	defer cancel()
	if err := s.keepClient(ctx, e.Found.Issuer.ID, oauth.Client{}); err != nil {
		s.log.Warn("the registration at an issuer can't be removed", zap.Error(err))
	}
}

// write changes the login if its token is still that of e. It tries for a while, even if the router
// ends: the issuer does not repeat its answers. The lock of the login must be held.
func (s *Source) write(e *entry, change func(*entry)) (*entry, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), writeTime)
	defer cancel()
	for {
		now, err := s.store.swap(ctx, s.key, e.Generation, change)
		if err == nil {
			return s.replaced(now)
		}
		select {
		case <-time.After(500 * time.Millisecond):
		case <-ctx.Done():
			return nil, fmt.Errorf("write the refreshed token: %w", err)
		}
	}
}

// reached notes whether the issuer answers.
func (s *Source) reached(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed, s.retry = err, time.Now().Add(retryTime)
}

// remote asks an issuer over HTTP.
type remote struct{ http *http.Client }

func (r remote) discover(ctx context.Context, s oauth.Server, c oauth.Challenge) (*oauth.Found, error) {
	return oauth.Discover(ctx, r.http, s, c)
}

// refresh counts the life of the token from before the request: an issuer's clock starts with its
// answer, which may take long.
func (r remote) refresh(ctx context.Context, s oauth.Server, of record) (oauth.Token, error) {
	asked := wall()
	t, err := grantor(r.http, s.Settings, of.Found, withSecret(s, of.Client)).Refresh(ctx, of.Token)
	return since(t, asked), err
}

func (r remote) credentials(ctx context.Context, s oauth.Server, f oauth.Found, scopes []string) (oauth.Token, error) {
	asked := wall()
	client, err := oauth.Identify(ctx, r.http, s, f.Issuer, oauth.Redirect{}, nil)
	if err != nil {
		return oauth.Token{}, err
	}
	t, err := grantor(r.http, s.Settings, f, client).ClientCredentials(ctx, scopes)
	return since(t, asked), err
}

func since(t oauth.Token, asked time.Time) oauth.Token {
	if late := t.Obtained.Sub(asked); late > 0 {
		t.Obtained = asked
		if !t.Expires.IsZero() {
			t.Expires = t.Expires.Add(-late)
		}
	}
	return t
}
