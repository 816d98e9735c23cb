package login

import (
	"context"
	"fmt"

	"github.com/mcp-metarouter/metarouter/internal/oauth"
)

// A source with the grant client_credentials needs no person. It keeps the last token in memory.

// An issued token of a machine, with its issuer.
type issued struct {
	oauth.Token
	by string // "" before the first one
}

func lastIssued(s *Source) issued {
	if last := s.last.Load(); last != nil {
		return *last
	}
	return issued{}
}

// ownToken returns the token of a machine. Before the first refusal of the server it is "".
func ownToken(ctx context.Context, s *Source) (string, error) {
	last, found := lastIssued(s), s.found.Load()
	if last.by == "" || found == nil || ageOf(last.Token, wall()) == young {
		return last.Access, nil
	}
	next, err := nextOwn(ctx, s, *found, last, nil)
	if err != nil && ageOf(last.Token, wall()) == old {
		return last.Access, nil
	}
	return next, err
}

// replaceOwn gets another token of a machine than the refused one.
func replaceOwn(ctx context.Context, s *Source, token string, c oauth.Challenge, forbidden bool) error {
	last := lastIssued(s)
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
	_, err = nextOwn(ctx, s, *found, last, c.Scopes)
	return err
}

// nextOwn gets the token that follows on last. Callers that have the same last one get the same next
// one.
func nextOwn(ctx context.Context, s *Source, found oauth.Found, last issued, more []string) (string, error) {
	var granted []string
	if len(s.server.Settings.Scopes) == 0 {
		granted = last.Scopes
	}
	scopes := oauth.ScopesToAsk(s.server.Settings, &found, oauth.Challenge{Scopes: more}, granted)
	if failed := s.recentOutage(); failed != nil {
		return "", failed
	}
	result, err := s.await(ctx, "machine"+last.Access, refreshTime, func(ctx context.Context) (any, error) {
		if now := lastIssued(s); now.Access != last.Access {
			return now.Access, nil
		}
		if err := s.account.permit(ctx, found.Issuer.ID, true); err != nil {
			s.found.Store(nil) // the next request is sent without a token: the server may name the first issuer again
			s.last.Store(nil)
			return "", err
		}
		var token oauth.Token
		client, err := oauth.Identify(ctx, s.http, s.server, found.Issuer, oauth.Redirect{}, nil)
		if err == nil {
			token, err = grantor(s.http, s.server.Settings, found, client).ClientCredentials(ctx, scopes)
		}
		if err != nil {
			err = fmt.Errorf("get a token from %s with the client's own credentials: %w", found.Issuer.ID, err)
			s.beginOutage(err)
			return "", err
		}
		s.outage.Store(nil)
		s.last.Store(&issued{token, found.Issuer.ID})
		return token.Access, nil
	})
	token, _ := result.(string)
	return token, err
}
