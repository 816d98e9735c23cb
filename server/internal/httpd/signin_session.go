package httpd

import (
	"context"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/internal/signin"
)

const (
	// maxSSO bounds the browsers that are logged in at issuers. One more ends the login that was
	// not used for longest.
	maxSSO = 1000

	// judgeAgain is after how long an access token is judged again, as those of other clients are.
	judgeAgain = time.Minute

	// renewTime bounds how long an issuer takes to renew a token.
	renewTime = 30 * time.Second

	// revokeTime bounds how long an issuer takes to revoke tokens.
	revokeTime = 5 * time.Second

	// renewPause is how long an issuer is left alone that could not be asked.
	renewPause = 5 * time.Second
)

// An ssoSession is a browser's login at an issuer. It lasts as long as the access token lets its
// user in as an administrator, and is renewed by the refresh token.
type ssoSession struct {
	of       *ssoSessions
	id       string // of its stay
	hash     string // of the principal, who never changes
	issuer   string
	revision string // of the issuer's configuration
	resource string // for which the token is
	from     string // the browser's address at the login

	mu     sync.Mutex // guards what follows
	grant  *grant     // ends with the session
	tokens *signin.Session
	good   time.Time     // until when the token need not be judged again
	ends   time.Time     // of the token
	used   time.Time     // when the browser was last seen
	flight chan struct{} // closed when the judgement under way is over; nil if none is
	failed error         // why the last judgement could not be made; nil if it was made
	pause  time.Time     // until when no other is begun after that
}

// ssoSessions are the browsers that are logged in at issuers.
type ssoSessions struct {
	authenticator Authenticator
	audit         audit.Recorder
	work          *work
	log           *zap.Logger

	mu   sync.Mutex // guards what follows
	byID map[string]*ssoSession
}

// add begins the session of a stay, whose token was just judged.
func (l *ssoSessions) add(s *ssoSession, p Proof) {
	s.of, s.used = l, time.Now()
	s.grant = &grant{Principal: p.Principal, issuer: s.issuer, since: s.used.Truncate(time.Second)}
	s.grant.ctx, s.grant.revoke = context.WithCancelCause(context.Background())
	s.judged(p)
	l.mu.Lock()
	if l.byID == nil {
		l.byID = make(map[string]*ssoSession)
	}
	var ended []*ssoSession
	oldest := s
	for _, other := range l.byID {
		switch used := other.lastUsed(); {
		case time.Since(used) >= loginIdle:
			ended = append(ended, other)
		case used.Before(oldest.lastUsed()):
			oldest = other
		}
	}
	if len(l.byID)-len(ended) >= maxSSO {
		ended = append(ended, oldest)
	}
	l.byID[s.id] = s
	l.mu.Unlock()
	for _, other := range ended {
		l.end(other)
	}
}

// get returns the session of a stay; nil if there is none.
func (l *ssoSessions) get(id string) *ssoSession {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.byID[id]
}

// end ends a session and its requests. It reports whether the session had not ended before.
func (l *ssoSessions) end(s *ssoSession) bool {
	l.mu.Lock()
	had := l.byID[s.id] == s
	if had {
		delete(l.byID, s.id)
	}
	l.mu.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.grant.revoke(errRevoked)
	return had
}

// expire ends a session that may not go on.
func (l *ssoSessions) expire(s *ssoSession, why string) {
	if l.end(s) {
		s.mu.Lock()
		name := s.grant.Name
		s.mu.Unlock()
		l.log.Info("a browser's login has ended", zap.String("principal", name), zap.String("why", why))
		l.audit.Record(audit.Event{Action: audit.LogOut, Outcome: audit.OK, Principal: name, From: s.from, Target: s.issuer, Reason: why})
	}
}

// edited ends the sessions that the rules do not permit any more.
func (l *ssoSessions) edited(r *rules) {
	l.mu.Lock()
	var ended []*ssoSession
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

// fits reports whether the issuer is in the configuration as it was at the login.
func (s *ssoSession) fits(r *rules) bool {
	i := r.issuers[s.issuer]
	return i != nil && i.ctx.Err() == nil && i.Revision == s.revision && i.ClientID != "" && s.resource == pageResource(r)
}

// last returns the grant as it was when the token was judged.
func (s *ssoSession) last() *grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.grant
}

func (s *ssoSession) lastUsed() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

// judged keeps what the token proved. s.mu must be held, or s not be shared yet.
func (s *ssoSession) judged(p Proof) {
	s.ends = p.Expires
	if told := s.tokens.Expires(); !told.IsZero() && told.Before(s.ends) {
		s.ends = told
	}
	now := time.Now()
	s.good = now.Add(judgeAgain)
	if s.ends.Before(s.good) {
		s.good = s.ends
	}
	// The clock of the issuer may be behind ours.
	if soon := now.Add(renewPause); s.good.Before(soon) {
		s.good = soon
	}
	s.failed = nil
}

// use returns the grant of the session for a request of its browser; nil if the session has ended,
// or with an error if the issuer can't be asked.
func (s *ssoSession) use(ctx context.Context) (*grant, error) {
	s.mu.Lock()
	s.used = time.Now()
	s.mu.Unlock()
	return s.check(ctx)
}

// check returns the grant of the session as use does. If the token has to be judged again, all
// who ask wait for the same judgement.
func (s *ssoSession) check(ctx context.Context) (*grant, error) {
	for first := true; ; first = false {
		s.mu.Lock()
		now := time.Now()
		g, failed := s.grant, s.failed
		switch {
		case g.ctx.Err() != nil:
			s.mu.Unlock()
			return nil, nil
		case now.Before(s.good):
			s.mu.Unlock()
			return g, nil
		case failed != nil && (now.Before(s.pause) || !first):
			s.mu.Unlock()
			return nil, failed
		}
		if s.flight == nil {
			s.flight = make(chan struct{})
			s.of.work.running.Go(s.judge) // the caller's request is counted there, so that it can't be closed
		}
		flight := s.flight
		s.mu.Unlock()
		select {
		case <-flight:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// judge judges the token again, after it was renewed if it has expired.
func (s *ssoSession) judge() {
	ctx, cancel := context.WithTimeout(s.of.work.ctx, renewTime)
	defer cancel()
	s.mu.Lock()
	tokens, expired := s.tokens, !time.Now().Before(s.ends)
	s.mu.Unlock()
	fresh, proof, err := s.renewed(ctx, tokens, expired)
	why := ""
	refusal, refused := errors.AsType[*Refusal](err)
	switch {
	case refused:
		why = "the token is refused: " + refusal.Reason
	case errors.Is(err, signin.ErrRefused), errors.Is(err, errExpired):
		why = err.Error()
	case err != nil:
	case !s.same(proof):
		why = "the issuer's token is of another user, or the configuration was edited"
	case !proof.Principal.Admin:
		why = "the user is no administrator any more"
	}
	if why != "" {
		s.of.expire(s, why)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tokens = fresh // also after an error: the old refresh token may not work any more
	switch {
	case why != "":
	case err != nil:
		s.failed, s.pause = err, time.Now().Add(renewPause)
	default:
		next := *s.grant
		next.Principal = proof.Principal
		s.grant = &next
		s.judged(proof)
	}
	close(s.flight)
	s.flight = nil
	if s.grant.ctx.Err() != nil && fresh != tokens { // the browser has logged out meanwhile
		s.of.work.running.Go(func() { s.of.revoke(fresh) })
	}
}

// logOut ends a session, and has the issuer forget its tokens.
func (l *ssoSessions) logOut(s *ssoSession) {
	l.end(s)
	s.mu.Lock()
	tokens := s.tokens
	s.mu.Unlock()
	l.revoke(tokens)
}

// revoke has the issuer forget tokens of a session that has ended.
func (l *ssoSessions) revoke(tokens *signin.Session) {
	ctx, cancel := context.WithTimeout(l.work.ctx, revokeTime)
	defer cancel()
	if err := tokens.Revoke(ctx); err != nil {
		l.log.Info("an issuer has not revoked the tokens of a login that has ended", zap.String("issuer", tokens.Issuer), zap.Error(err))
	}
}

// errEdited is why sessions end whose issuer is not configured as it was.
var errEdited = errors.New("the configuration of the issuer was edited")

// errExpired is why a session without a refresh token ends.
var errExpired = errors.New("the access token has expired, and the issuer gave no refresh token")

// renewed returns the tokens, renewed if they have to be, and what they prove.
func (s *ssoSession) renewed(ctx context.Context, tokens *signin.Session, expired bool) (*signin.Session, Proof, error) {
	if !expired {
		proof, err := s.of.authenticator.Token(ctx, tokens.Access(), s.resource)
		// A token that is bad before its time may be signed by a key that the issuer has replaced.
		if refusal, ok := errors.AsType[*Refusal](err); !ok || refusal.Status != 401 || !tokens.Renews() {
			return tokens, proof, err
		}
	}
	if !tokens.Renews() {
		return tokens, Proof{}, errExpired
	}
	fresh, err := tokens.Refresh(ctx)
	if err != nil {
		return tokens, Proof{}, err
	}
	proof, err := s.of.authenticator.Token(ctx, fresh.Access(), s.resource)
	return fresh, proof, err
}

// same reports whether a token proves the same principal by the same configuration.
func (s *ssoSession) same(p Proof) bool {
	return p.Principal.Hash == s.hash && p.Issuer == s.issuer && p.Revision == s.revision
}

// follow ends the session in time while a request of its browser is served, until ctx ends.
func (s *ssoSession) follow(ctx context.Context, cancel context.CancelFunc) {
	for {
		s.mu.Lock()
		good := s.good
		s.mu.Unlock()
		again := time.NewTimer(time.Until(good))
		select {
		case <-ctx.Done():
			again.Stop()
			return
		case <-again.C:
		}
		if g, err := s.check(ctx); g == nil || err != nil {
			cancel()
			return
		}
	}
}
