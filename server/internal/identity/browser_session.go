package identity

import (
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/audit"
)

const (
	// loginLife is how long a login lasts, unless the router ends before.
	loginLife = time.Hour

	// maxLogins bounds the browsers that are logged in. One more ends the oldest login, of the same principal if there is one.
	maxLogins = 1000

	// revokeTime bounds how long an issuer takes to revoke tokens.
	revokeTime = 5 * time.Second
)

// errEdited is why sessions end when the configuration of their issuer was edited.
var errEdited = errors.New("the configuration of the issuer was edited")

// A browserSession is a browser's login, by a token of the options or at an issuer. It does not change.
type browserSession struct {
	id     string // the value of its cookie
	begun  time.Time
	grant  *Grant  // ends with the session
	from   string  // the browser's address
	tokens *signIn // of the login at an issuer, revoked at the logout; nil for a token of the options
}

// browserSessions are the browsers that are logged in.
type browserSessions struct {
	*common

	mu   sync.Mutex // guards byID
	byID map[string]*browserSession
}

// begin begins a session of the principal of the grant, which ends with it.
func (l *browserSessions) begin(of *Grant, from string, tokens *signIn) *browserSession {
	g := *of
	lasts, free := context.WithTimeout(of.Context, loginLife)
	g.right = newRight(lasts)
	context.AfterFunc(g.Context, free)
	s := &browserSession{id: rand.Text(), begun: time.Now(), grant: &g, from: from, tokens: tokens}
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.byID, func(_ string, other *browserSession) bool { return other.grant.Context.Err() != nil })
	if len(l.byID) >= maxLogins {
		others := slices.SortedFunc(maps.Values(l.byID), func(a, b *browserSession) int { return a.begun.Compare(b.begun) })
		own := slices.IndexFunc(others, func(other *browserSession) bool { return other.grant.Hash == g.Hash })
		oldest := others[max(0, own)]
		oldest.grant.revoke(ErrRevoked)
		delete(l.byID, oldest.id)
	}
	l.byID[s.id] = s
	return s
}

// get returns the session of a cookie; nil if it does not exist or has ended.
func (l *browserSessions) get(cookie string) *browserSession {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.byID[cookie]; s != nil && s.grant.Context.Err() == nil {
		return s
	}
	return nil
}

// edited forgets the sessions that have ended, and records those at issuers that an edit has ended.
func (l *browserSessions) edited() {
	var ended []*browserSession
	l.mu.Lock()
	maps.DeleteFunc(l.byID, func(_ string, s *browserSession) bool {
		over := s.grant.Context.Err() != nil
		if over && s.tokens != nil && context.Cause(s.grant.Context) == ErrRevoked {
			ended = append(ended, s)
		}
		return over
	})
	l.mu.Unlock()
	for _, s := range ended { // a log may be slow, and requests wait for the mutex
		l.Log.Info("a browser's login has ended", zap.String("principal", s.grant.Name), zap.Error(errEdited))
		l.Audit.Record(audit.Event{Action: audit.LogOut, Outcome: audit.OK, Principal: s.grant.Name, From: s.from, Target: s.tokens.issuer, Reason: errEdited.Error()})
	}
}

// logOut ends a session, and has its issuer forget its tokens.
func (l *browserSessions) logOut(s *browserSession) {
	l.mu.Lock()
	delete(l.byID, s.id)
	l.mu.Unlock()
	if s.grant.revoke(ErrRevoked); s.tokens != nil {
		l.revoke(s.tokens)
	}
}

// revoke has the issuer forget tokens.
func (l *browserSessions) revoke(tokens *signIn) {
	ctx, cancel := context.WithTimeout(l.ctx, revokeTime)
	defer cancel()
	if err := tokens.grantor.Revoke(ctx, tokens.token); err != nil {
		l.Log.Info("an issuer has not revoked the tokens of a login that has ended", zap.String("issuer", tokens.issuer), zap.Error(err))
	}
}

// During returns the context of a page's request, which ends with the grant of its client, and, if it lasts,
// as [Sender.Lasting] says. stop must be called.
func (i *Identifier) During(r *http.Request, c *Sender, lasts bool) (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancel(r.Context())
	unfollow, unrevoke := context.AfterFunc(i.ctx, cancel), context.AfterFunc(c.Grant.Context, cancel)
	leave := func() {}
	if lasts {
		ctx, leave = c.Lasting(ctx)
	}
	return ctx, func() {
		unfollow()
		unrevoke()
		cancel()
		leave()
	}
}
