package login

import (
	"context"
	"fmt"

	"golang.org/x/sync/singleflight"

	"github.com/mcp-metarouter/metarouter/internal/oauth"
)

// An issued token is the last one of a machine: a source with the grant client_credentials, which needs no person. It is kept in
// memory only.
type issued struct {
	oauth.Token
	by string // its issuer; "" before the first token
}

// ownToken returns the token of a machine. Before the first refusal of the server it is "". While the last token is
// valid, a slow issuer delays no caller.
func ownToken(ctx context.Context, s *Source) (string, error) {
	last, found := s.own.Load(), s.found.Load()
	age := ageOf(last.Token, wall())
	if age == young || found == nil || age == old && s.outage.Load().recent() != nil {
		return last.Access, nil
	}
	next := startOwn(s, *found, last.Access, nil)
	if age == old {
		return last.Access, nil // an error shows when the token has expired
	}
	return await[string](ctx, next)
}

// replaceOwn gets another token of a machine than the refused one. Callers whose requests were refused alike share the search for the
// issuer.
func replaceOwn(ctx context.Context, s *Source, token string, c oauth.Challenge, forbidden bool) error {
	name := fmt.Sprintf("replace %s %t %q", token, forbidden, c.Scopes)
	_, err := await[string](ctx, s.start(name, discoverTime+refreshTime, func(ctx context.Context) (any, error) {
		if last := s.own.Load(); isReplaced(last, token) {
			return last.Access, nil
		}
		found, err := s.find(ctx, c, token != "")
		last := s.own.Load()
		switch {
		case isReplaced(last, token): // meanwhile
			return last.Access, nil
		case err != nil:
			return nil, err
		case forbidden:
			if s.count(c.Scopes, token) >= maxSteps {
				return nil, fmt.Errorf("the server asks for the scopes %q again though the router asked for them", c.Scopes)
			}
		case last.Access == token && ageOf(last.Token, wall()) == young && wall().Sub(last.Obtained).Abs() < youngTime && last.by == found.Issuer.ID:
			return nil, fmt.Errorf("the server refuses a token that %s has just issued to the client of oauth.clientId", found.Issuer.ID)
		}
		return await[string](ctx, startOwn(s, *found, token, c.Scopes))
	}))
	return err
}

// isReplaced reports whether the last token of a machine is a valid one, and another than token.
func isReplaced(last *issued, token string) bool {
	return last.by != "" && last.Access != token && ageOf(last.Token, wall()) != tooOld
}

// startOwn gets another token of a machine than the given one in a goroutine of the source. It asks for more scopes next to those of
// the last token. If a task is under way, this is the result of that one, whatever it asks for: of two at once, the one with fewer scopes
// could end last.
func startOwn(s *Source, found oauth.Found, token string, more []string) <-chan singleflight.Result {
	return s.start("own", refreshTime, func(ctx context.Context) (any, error) {
		last := s.own.Load()
		if isReplaced(last, token) { // by a task that has just ended
			return last.Access, nil
		}
		if failed := s.outage.Load().recent(); failed != nil {
			return nil, failed
		}
		if err := s.permit(ctx, found.Issuer.ID, true); err != nil {
			s.found.Store(nil) // the next request is sent without a token: the server may name the first issuer again
			s.own.Store(new(issued))
			return nil, err
		}
		var next oauth.Token
		client, err := oauth.Identify(ctx, s.http, s.server, found.Issuer, oauth.Redirect{}, nil)
		if err == nil {
			scopes := oauth.ScopesToAsk(s.server.Settings, &found, oauth.Challenge{Scopes: more}, last.Scopes)
			next, err = grantor(s.http, s.server.Settings, found, client).ClientCredentials(ctx, scopes)
		}
		if err != nil {
			err = fmt.Errorf("get a token from %s with the client's own credentials: %w", found.Issuer.ID, err)
			s.beginOutage(err)
			return nil, err
		}
		s.outage.Store(nil)
		s.own.Store(&issued{next, found.Issuer.ID})
		return next.Access, nil
	})
}
