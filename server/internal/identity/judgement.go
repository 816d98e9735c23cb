package identity

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/internal/signin"
)

const (
	// judgeAgain is after how long an access token is judged again, as tokens of other clients are.
	judgeAgain = time.Minute

	// renewTime bounds how long an issuer takes to renew a token.
	renewTime = 30 * time.Second

	// revokeTime bounds how long an issuer takes to revoke tokens.
	revokeTime = 5 * time.Second

	// renewPause is how long an issuer is left alone that could not be asked.
	renewPause = 5 * time.Second
)

// issued has the tokens of the issuer at which the browser of a session has logged in. The session lasts
// as long as the access token lets its user in as an administrator, and is renewed by the refresh
// token.
type issued struct {
	hash     string // of the principal, who never changes
	issuer   string // "" for a login by a token of the options
	revision string // of the issuer's configuration
	resource string // for which the token is
	from     string // the browser's address at the login

	tokens *signin.Session
	good   time.Time     // until when the token need not be judged again
	ends   time.Time     // of the token
	flight chan struct{} // closed when the judgement under way is over; may be nil
	failed error         // why the last judgement could not be made; nil if it was made
	pause  time.Time     // until when no other is begun after that
}

// expire ends a session that may not go on.
func (l *browserSessions) expire(s *browserSession, why string) {
	if !l.end(s) || s.issuer == "" {
		return
	}
	name := s.last().Name
	l.Log.Info("a browser's login has ended", zap.String("principal", name), zap.String("why", why))
	l.Audit.Record(audit.Event{Action: audit.LogOut, Outcome: audit.OK, Principal: name, From: s.from, Target: s.issuer, Reason: why})
}

// fits reports whether the token, or else the issuer, is in the configuration as it was at the login. Rules are in force
// a moment before the logins end that they do not permit.
func (s *browserSession) fits(r *Rules) bool {
	g := s.last()
	return s.issuer == "" && g.Context.Err() == nil && r.grants[g.Principal] != nil || s.issuer != "" && s.issued.fits(r)
}

// fits reports whether the issuer is in the configuration as it was at the login.
func (s *issued) fits(r *Rules) bool {
	i := r.issuers[s.issuer]
	return i != nil && i.Context.Err() == nil && i.Revision == s.revision && i.ClientID != "" && s.resource == pageResource(r)
}

// judged keeps how long the proof is good. The mutex of its session must be held, or s not be
// shared yet.
func (s *issued) judged(p clientauth.Proof) {
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
func (s *browserSession) use(ctx context.Context) (*Grant, error) {
	s.mu.Lock()
	s.used = time.Now()
	s.mu.Unlock()
	return s.check(ctx)
}

// check returns the grant of the session as use does. If the token has to be judged again, all
// who ask wait for the same judgement.
func (s *browserSession) check(ctx context.Context) (*Grant, error) {
	for first := true; ; first = false {
		s.mu.Lock()
		now := time.Now()
		g, failed := s.grant, s.failed
		switch {
		case g.Context.Err() != nil:
			s.mu.Unlock()
			return nil, nil
		case s.issuer == "", now.Before(s.good):
			s.mu.Unlock()
			return g, nil
		case failed != nil && (now.Before(s.pause) || !first):
			s.mu.Unlock()
			return nil, failed
		}
		if s.flight == nil {
			s.flight = make(chan struct{})
			s.of.running.Go(s.judge) // the caller's request is counted there, so that it can't be closed
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
func (s *browserSession) judge() {
	ctx, cancel := context.WithTimeout(s.of.ctx, renewTime)
	defer cancel()
	s.mu.Lock()
	tokens, expired := s.tokens, !time.Now().Before(s.ends)
	s.mu.Unlock()
	fresh, proof, err := s.judgement(ctx, tokens, expired)
	why := ""
	refusal, refused := errors.AsType[*clientauth.Refusal](err)
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
	if s.grant.Context.Err() != nil && fresh != tokens { // the browser has logged out meanwhile
		s.of.running.Go(func() { s.of.revoke(fresh) })
	}
}

// logOut ends a session, and has its issuer forget its tokens.
func (l *browserSessions) logOut(s *browserSession) {
	l.end(s)
	s.mu.Lock()
	tokens := s.tokens
	s.mu.Unlock()
	if tokens != nil {
		l.revoke(tokens)
	}
}

// errEdited is why sessions end when the configuration of their issuer was edited.
var errEdited = errors.New("the configuration of the issuer was edited")

// errExpired is why a session without a refresh token ends.
var errExpired = errors.New("the access token has expired, and the issuer gave no refresh token")

// judgement returns the tokens, renewed if they have to be, and their proof.
func (s *browserSession) judgement(ctx context.Context, tokens *signin.Session, expired bool) (*signin.Session, clientauth.Proof, error) {
	if !expired {
		proof, err := s.of.Authenticator.Token(ctx, tokens.Access(), s.resource)
		// A token that is bad before its time may be signed by a key that the issuer has replaced.
		if refusal, ok := errors.AsType[*clientauth.Refusal](err); !ok || refusal.Status != 401 || !tokens.Renews() {
			return tokens, proof, err
		}
	}
	if !tokens.Renews() {
		return tokens, clientauth.Proof{}, errExpired
	}
	fresh, err := tokens.Refresh(ctx)
	if err != nil {
		return tokens, clientauth.Proof{}, err
	}
	proof, err := s.of.Authenticator.Token(ctx, fresh.Access(), s.resource)
	return fresh, proof, err
}

// same reports whether a token proves the same principal by the same configuration.
func (s *browserSession) same(p clientauth.Proof) bool {
	return p.Principal.Hash == s.hash && p.Issuer == s.issuer && p.Revision == s.revision
}
