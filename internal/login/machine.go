package login

import (
	"context"
	"fmt"
	"sync/atomic"

	"golang.org/x/sync/semaphore"

	"github.com/mcp-metarouter/metarouter/internal/oauth"
)

// A machine is the state of a source with the grant client_credentials, which needs no person. It keeps the last token in memory.
type machine struct {
	turn *semaphore.Weighted    // of 1, to replace the last token
	kept atomic.Pointer[issued] // nil before the first token
}

// An issued token of a machine, with its issuer.
type issued struct {
	oauth.Token
	by string // "" before the first one
}

func (m *machine) last() issued {
	if last := m.kept.Load(); last != nil {
		return *last
	}
	return issued{}
}

// ownToken returns the token of a machine. Before the first refusal of the server it is "". While the last token is
// valid, a slow issuer delays only the caller that asks it for the next one.
func ownToken(ctx context.Context, s *Source) (string, error) {
	m := &s.machine
	last := m.last()
	age := ageOf(last.Token, wall())
	if age == young || age == old && !m.turn.TryAcquire(1) {
		return last.Access, nil
	}
	if age == tooOld && m.turn.Acquire(ctx, 1) != nil {
		return "", context.Cause(ctx)
	}
	defer m.turn.Release(1)
	found := s.found.Load()
	if last = m.last(); found == nil || ageOf(last.Token, wall()) == young {
		return last.Access, nil
	}
	if err := nextOwn(ctx, s, *found, nil); err != nil && ageOf(m.last().Token, wall()) != old {
		return "", err
	}
	return m.last().Access, nil
}

// replaceOwn gets another token of a machine than the refused one.
func replaceOwn(ctx context.Context, s *Source, token string, c oauth.Challenge, forbidden bool) error {
	m := &s.machine
	if m.turn.Acquire(ctx, 1) != nil {
		return context.Cause(ctx)
	}
	defer m.turn.Release(1)
	last := m.last()
	age := ageOf(last.Token, wall())
	if last.by != "" && last.Access != token && age != tooOld {
		return nil
	}
	found, err := s.find(ctx, c, token != "")
	switch {
	case err != nil:
		return err
	case forbidden:
		if s.count(c.Scopes, token) >= maxSteps {
			return fmt.Errorf("the server asks for the scopes %q again though the router asked for them", c.Scopes)
		}
	case last.Access == token && age == young && wall().Sub(last.Obtained).Abs() < youngTime && last.by == found.Issuer.ID:
		return fmt.Errorf("the server refuses a token that %s has just issued to the client of oauth.clientId", found.Issuer.ID)
	}
	return nextOwn(ctx, s, *found, c.Scopes)
}

// nextOwn gets another token. It is the caller's turn.
func nextOwn(ctx context.Context, s *Source, found oauth.Found, more []string) error {
	if failed := s.outage.Load().recent(); failed != nil {
		return failed
	}
	caller := ctx
	ctx, cancel := context.WithTimeout(ctx, refreshTime)
	defer cancel()
	m, settings := &s.machine, s.server.Settings
	if err := s.account.permit(ctx, found.Issuer.ID, true); caller.Err() != nil {
		return context.Cause(caller)
	} else if err != nil {
		s.found.Store(nil) // the next request is sent without a token: the server may name the first issuer again
		m.kept.Store(nil)
		return err
	}
	var granted []string
	if len(settings.Scopes) == 0 {
		granted = m.last().Scopes
	}
	var token oauth.Token
	client, err := oauth.Identify(ctx, s.http, s.server, found.Issuer, oauth.Redirect{}, nil)
	if err == nil {
		scopes := oauth.ScopesToAsk(settings, &found, oauth.Challenge{Scopes: more}, granted)
		token, err = grantor(s.http, settings, found, client).ClientCredentials(ctx, scopes)
	}
	switch {
	case err == nil:
		s.outage.Store(nil)
		m.kept.Store(&issued{token, found.Issuer.ID})
		return nil
	case caller.Err() != nil: // which says nothing of the issuer
		return context.Cause(caller)
	}
	err = fmt.Errorf("get a token from %s with the client's own credentials: %w", found.Issuer.ID, err)
	s.beginOutage(err)
	return err
}
