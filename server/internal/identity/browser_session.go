package identity

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/internal/signin"
)

const (
	// loginLife is how long a login lasts, unless the router ends before.
	loginLife = time.Hour

	// maxLogins bounds the browsers that are logged in. One more ends the oldest login.
	maxLogins = 1000

	// revokeTime bounds how long an issuer takes to revoke tokens.
	revokeTime = 5 * time.Second
)

// errEdited is why sessions end when the configuration of their issuer was edited.
var errEdited = errors.New("the configuration of the issuer was edited")

// A browserSession is a browser's login, by a token of the options or at an issuer. It does not change.
type browserSession struct {
	id    string    // the value of its cookie
	until time.Time // it ends by itself
	grant *Grant    // ends with the session
	issued
}

// issued is what a login at an issuer has shown; zero for a login by a token of the options.
type issued struct {
	issuer   string
	revision string          // of the issuer's configuration
	resource string          // for which the token is
	from     string          // the browser's address
	tokens   *signin.Session // revoked at the logout
}

// browserSessions are the browsers that are logged in.
type browserSessions struct {
	*common

	mu   sync.Mutex // guards byID
	byID map[string]*browserSession
}

// begin begins a session of the principal of the grant, which ends with it.
func (l *browserSessions) begin(of *Grant, at issued) *browserSession {
	now, g := time.Now(), *of
	g.right = newRight(of.Context)
	s := &browserSession{id: rand.Text(), until: now.Add(loginLife), grant: &g, issued: at}
	l.mu.Lock()
	var ended []*browserSession
	oldest := s
	for _, other := range l.byID {
		if !now.Before(other.until) {
			ended = append(ended, other)
		} else if other.until.Before(oldest.until) {
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
	if s := l.byID[cookie]; s != nil && time.Now().Before(s.until) && s.grant.Context.Err() == nil {
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
	s.grant.revoke(ErrRevoked)
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
		l.forbid(s)
	}
}

// forbid ends a session that the rules do not permit any more.
func (l *browserSessions) forbid(s *browserSession) {
	if !l.end(s) || s.issuer == "" {
		return
	}
	l.Log.Info("a browser's login has ended", zap.String("principal", s.grant.Name), zap.Error(errEdited))
	l.Audit.Record(audit.Event{Action: audit.LogOut, Outcome: audit.OK, Principal: s.grant.Name, From: s.from, Target: s.issuer, Reason: errEdited.Error()})
}

// logOut ends a session, and has its issuer forget its tokens.
func (l *browserSessions) logOut(s *browserSession) {
	if l.end(s); s.tokens != nil {
		l.revoke(s.tokens)
	}
}

// revoke has the issuer forget tokens.
func (l *browserSessions) revoke(tokens *signin.Session) {
	ctx, cancel := context.WithTimeout(l.ctx, revokeTime)
	defer cancel()
	if err := tokens.Revoke(ctx); err != nil {
		l.Log.Info("an issuer has not revoked the tokens of a login that has ended", zap.String("issuer", tokens.Issuer), zap.Error(err))
	}
}

// fits reports whether the token, or else the issuer, is in the configuration as it was at the login. Rules are in force
// a moment before the logins end that they do not permit.
func (s *browserSession) fits(r *Rules) bool {
	g := s.grant
	return s.issuer == "" && g.Context.Err() == nil && r.grants[g.Principal] != nil || s.issuer != "" && s.issued.fits(r)
}

// fits reports whether the issuer is in the configuration as it was at the login.
func (s *issued) fits(r *Rules) bool {
	i := r.issuers[s.issuer]
	return i != nil && i.Context.Err() == nil && i.Revision == s.revision && i.ClientID != "" && s.resource == pageResource(r)
}

// During returns the context of a page's request, which ends with the grant and the login of its client, and, if
// it lasts, as [Sender.Lasting] says. stop must be called.
func (i *Identifier) During(r *http.Request, c *Sender, lasts bool) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(r.Context())
	unfollow, unrevoke := context.AfterFunc(i.ctx, cancel), context.AfterFunc(c.Grant.Context, cancel)
	leave := func() {}
	if lasts {
		ctx, leave = c.Lasting(ctx)
	}
	unlimited := func() {}
	if c.session != nil {
		ctx, unlimited = context.WithDeadline(ctx, c.session.until)
	}
	return ctx, func() {
		unfollow()
		unrevoke()
		cancel()
		unlimited()
		leave()
	}
}
