package login

import (
	"context"
	"fmt"

	"golang.org/x/sync/semaphore"

	"github.com/mcp-metarouter/metarouter/internal/oauth"
)

// A machine is the state of a source with the grant client_credentials, which needs no person. It keeps the last token in memory.
type machine struct {
	turn   *semaphore.Weighted // of 1, for the fields below
	token  oauth.Token
	issuer string // its ID; "" before the first token
}

// ownToken returns the token of a machine. Before the first refusal of the server it is "".
func ownToken(ctx context.Context, s *Source) (string, error) {
	m := &s.machine
	if m.turn.Acquire(ctx, 1) != nil {
		return "", context.Cause(ctx)
	}
	defer m.turn.Release(1)
	if m.issuer == "" || ageOf(m.token, wall()) == young {
		return m.token.Access, nil
	}
	if err := nextOwn(ctx, s, *s.found.Load(), nil); err != nil && ageOf(m.token, wall()) != old {
		return "", err
	}
	return m.token.Access, nil
}

// replaceOwn gets another token of a machine than the refused one.
func replaceOwn(ctx context.Context, s *Source, token string, c oauth.Challenge, forbidden bool) error {
	m := &s.machine
	if m.turn.Acquire(ctx, 1) != nil {
		return context.Cause(ctx)
	}
	defer m.turn.Release(1)
	age := ageOf(m.token, wall())
	if m.issuer != "" && m.token.Access != token && age != tooOld {
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
	case m.token.Access == token && age == young && wall().Sub(m.token.Obtained).Abs() < youngTime && m.issuer == found.Issuer.ID:
		return fmt.Errorf("the server refuses a token that %s has just issued to the client of oauth.clientId", found.Issuer.ID)
	}
	return nextOwn(ctx, s, *found, c.Scopes)
}

// nextOwn gets another token. It is the caller's turn.
func nextOwn(ctx context.Context, s *Source, found oauth.Found, more []string) error {
	if failed := s.outage.Load().recent(); failed != nil {
		return failed
	}
	m, settings := &s.machine, s.server.Settings
	if err := s.account.permit(ctx, found.Issuer.ID, true); err != nil {
		s.found.Store(nil) // the next request is sent without a token: the server may name the first issuer again
		m.token, m.issuer = oauth.Token{}, ""
		return err
	}
	var granted []string
	if len(settings.Scopes) == 0 {
		granted = m.token.Scopes
	}
	bounded, cancel := context.WithTimeout(ctx, refreshTime)
	defer cancel()
	var token oauth.Token
	client, err := oauth.Identify(bounded, s.http, s.server, found.Issuer, oauth.Redirect{}, nil)
	if err == nil {
		scopes := oauth.ScopesToAsk(settings, &found, oauth.Challenge{Scopes: more}, granted)
		token, err = grantor(s.http, settings, found, client).ClientCredentials(bounded, scopes)
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err != nil {
		err = fmt.Errorf("get a token from %s with the client's own credentials: %w", found.Issuer.ID, err)
		s.beginOutage(err)
		return err
	}
	s.outage.Store(nil)
	m.token, m.issuer = token, found.Issuer.ID
	return nil
}
