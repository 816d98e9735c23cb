package login

import (
	"context"
	"fmt"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/oauth"
)

// machineToken returns the token of a client that needs no person (client_credentials), which is
// kept in memory only. Before the first refusal of the server it is "".
func (s *Source) machineToken(ctx context.Context) (string, error) {
	s.mu.Lock()
	token, found := s.machine, s.found
	s.mu.Unlock()
	switch {
	case token == nil || found == nil:
		return "", nil
	case ageOf(*token, wall()) == young:
		return token.Access, nil
	}
	next, err := s.machineNext(ctx, *found, token, nil)
	if err == nil {
		return next, nil
	}
	if ageOf(*token, wall()) == old {
		return token.Access, nil
	}
	return "", err
}

// machineRefused gets another token than the refused one.
func (s *Source) machineRefused(ctx context.Context, token string, c oauth.Challenge, forbidden bool) error {
	s.mu.Lock()
	last := s.machine
	s.mu.Unlock()
	if last != nil && last.Access != token && ageOf(*last, wall()) != tooOld {
		return nil
	}
	found, err := s.discovered(ctx, c, token != "")
	if err != nil {
		return err
	}
	switch {
	case forbidden:
		s.mu.Lock()
		tries := s.steps.count(c.Scopes, token)
		s.mu.Unlock()
		if tries >= maxSteps {
			return fmt.Errorf("the server asks for the scopes %q again though the router asked for them", c.Scopes)
		}
	case last != nil && last.Access == token && ageOf(*last, wall()) == young && wall().Sub(last.Obtained).Abs() < youngTime:
		if s.sameIssuer(found) {
			return fmt.Errorf("the server refuses a token that %s has just issued to the client of oauth.clientId", found.Issuer.ID)
		}
	}
	_, err = s.machineNext(ctx, *found, last, c.Scopes)
	return err
}

// sameIssuer reports whether the last token is one of this issuer.
func (s *Source) sameIssuer(found *oauth.Found) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.machineOf == found.Issuer.ID
}

// restart has the next request sent without a token, so that its refusal says who the issuer is.
func (s *Source) restart() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found, s.machine = nil, nil
}

// machineNext gets the token that follows on last, which may be nil. Callers that have the same last
// one get the same next one.
func (s *Source) machineNext(ctx context.Context, found oauth.Found, last *oauth.Token, more []string) (string, error) {
	name, settings := "machine", s.server.Settings
	var granted []string
	if last != nil {
		name += last.Access
		if len(settings.Scopes) == 0 {
			granted = last.Scopes
		}
	}
	scopes := oauth.ScopesToAsk(settings, &found, oauth.Challenge{Scopes: more}, granted)
	if failed := s.waits(); failed != nil {
		return "", failed
	}
	result, err := s.fly(ctx, name, refreshTime, func(ctx context.Context) (any, error) {
		s.mu.Lock()
		now := s.machine
		s.mu.Unlock()
		if now != last && now != nil {
			return now.Access, nil
		}
		if err := s.pin(ctx, found.Issuer.ID); err != nil {
			s.restart() // the server may name the first one again
			return "", err
		}
		token, err := s.issuer.credentials(ctx, s.server, found, scopes)
		if err != nil {
			err = fmt.Errorf("get a token from %s with the client's own credentials: %w", found.Issuer.ID, err)
			s.reached(err)
			return "", err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.machine, s.machineOf, s.failed, s.retry = &token, found.Issuer.ID, nil, time.Time{}
		return token.Access, nil
	})
	if err != nil {
		return "", err
	}
	return result.(string), nil
}
