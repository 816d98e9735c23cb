package identity

import (
	"context"
	"crypto/rand"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/signin"
)

const (
	// loginIdle is how long a login lasts without a request, loginLife how long at most. No
	// login lasts longer than the router.
	loginIdle = 12 * time.Hour
	loginLife = 7 * 24 * time.Hour

	// renewAfter is how old a cookie is when the browser gets a new one.
	renewAfter = time.Hour

	// pageTime bounds one request of a page, such as its stream of events: the page asks
	// again, by which its cookie is renewed or found to be too old.
	pageTime = loginIdle / 2

	// maxLogins bounds the browsers that are logged in. One more ends the login that was not used
	// for longest.
	maxLogins = 1000
)

// A browserSession is a browser's login, by a token of the options or at an issuer.
type browserSession struct {
	of     *browserSessions
	id     string // the value of its cookie
	begun  time.Time
	issued // zero for a login by a token

	mu      sync.Mutex // guards the fields below, and the fields of issued
	grant   *Grant     // ends with the session
	used    time.Time  // when the browser was last seen
	renewed time.Time  // when the browser got its cookie
}

// browserSessions are the browsers that are logged in.
type browserSessions struct {
	*common

	mu   sync.Mutex // guards the fields below
	byID map[string]*browserSession
}

// begin begins a session of the principal of the grant, which ends with it.
func (l *browserSessions) begin(of *Grant, at issued) *browserSession {
	now, g := time.Now(), *of
	g.right = newRight(of.Context)
	s := &browserSession{of: l, id: rand.Text(), begun: now, issued: at, grant: &g, used: now, renewed: now}
	l.mu.Lock()
	var ended []*browserSession
	oldest := s
	for _, other := range l.byID {
		switch used := other.lastUsed(); {
		case !other.lasts(now):
			ended = append(ended, other)
		case used.Before(oldest.lastUsed()):
			oldest = other
		}
	}
	if len(l.byID)-len(ended) >= maxLogins {
		ended = append(ended, oldest)
	}
	l.byID[s.id] = s
	l.mu.Unlock()
	for _, other := range ended {
		l.end(other)
	}
	return s
}

// get returns the session of a cookie; nil if it does not exist or has ended.
func (l *browserSessions) get(cookie string) *browserSession {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.byID[cookie]; s != nil && s.lasts(time.Now()) {
		return s
	}
	return nil
}

// end ends a session and its requests. It reports whether the session had not ended before.
func (l *browserSessions) end(s *browserSession) bool {
	l.mu.Lock()
	had := l.byID[s.id] == s
	delete(l.byID, s.id)
	l.mu.Unlock()
	s.last().revoke(ErrRevoked)
	return had
}

// edited ends the sessions that the rules do not permit any more.
func (l *browserSessions) edited(r *Rules) {
	l.mu.Lock()
	var ended []*browserSession
	for _, s := range l.byID {
		if !s.fits(r) {
			ended = append(ended, s)
		}
	}
	l.mu.Unlock()
	for _, s := range ended {
		l.expire(s, errEdited.Error())
	}
}

// revoke has the issuer forget tokens of a session that has ended.
func (l *browserSessions) revoke(tokens *signin.Session) {
	ctx, cancel := context.WithTimeout(l.ctx, revokeTime)
	defer cancel()
	if err := tokens.Revoke(ctx); err != nil {
		l.Log.Info("an issuer has not revoked the tokens of a login that has ended", zap.String("issuer", tokens.Issuer), zap.Error(err))
	}
}

// ends returns when the session ends at the latest.
func (s *browserSession) end() time.Time { return s.begun.Add(loginLife) }

// lasts reports whether the session is neither too old nor unused for too long.
func (s *browserSession) lasts(now time.Time) bool {
	return now.Before(s.end()) && now.Sub(s.lastUsed()) < loginIdle
}

// last returns the grant as it was when the token was judged.
func (s *browserSession) last() *Grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.grant
}

func (s *browserSession) lastUsed() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

// During returns the context of a page's request, which ends with the grant and the login of its client, and, if
// it lasts, as [Sender.Lasting] says. A browser gets a new cookie if its own has become old. stop must be called.
func (i *Identifier) During(w http.ResponseWriter, r *http.Request, c *Sender, lasts bool) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(r.Context())
	unfollow, unrevoke := context.AfterFunc(i.ctx, cancel), context.AfterFunc(c.Grant.Context, cancel)
	leave := func() {}
	if lasts {
		ctx, leave = c.Lasting(ctx)
	}
	if s := c.session; s != nil {
		if s.mustRenew() {
			i.login.letIn(w, r, c, s)
		}
		ctx, leave = s.during(ctx)
	}
	return ctx, func() {
		unfollow()
		unrevoke()
		cancel()
		leave()
	}
}

// mustRenew reports whether the cookie has become old, and takes it as renewed then.
func (s *browserSession) mustRenew() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.Sub(s.renewed) < renewAfter {
		return false
	}
	s.renewed = now
	return true
}

// during returns a context for a page's request, which ends with the session and after a while by
// itself.
func (s *browserSession) during(ctx context.Context) (context.Context, func()) {
	until := time.Now().Add(pageTime)
	if end := s.end(); end.Before(until) {
		until = end
	}
	ctx, cancel := context.WithDeadline(ctx, until)
	if s.issuer == "" {
		return ctx, cancel // the request ends with the grant
	}
	ctx, stop := while(ctx, s.goodUntil, s.goesOn)
	return ctx, func() {
		cancel()
		stop()
	}
}

// goodUntil returns when the token has to be judged again.
func (s *browserSession) goodUntil() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.good
}

// goesOn reports whether the session still has a grant.
func (s *browserSession) goesOn(ctx context.Context) bool {
	g, err := s.check(ctx)
	return g != nil && err == nil
}
