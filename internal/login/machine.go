package login

import (
	"context"
	"fmt"
	"sync"

	"github.com/mcp-metarouter/metarouter/internal/oauth"
)

// A machine gets tokens for a client that needs no person (client_credentials), and keeps the last
// one in memory.
type machine struct {
	*Source
	issuer issuer

	mu   sync.Mutex // guards last
	last issued
}

// An issued token of a machine, with its issuer.
type issued struct {
	oauth.Token
	by string // "" before the first one
}

func (m *machine) lastToken() issued {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last
}

func (m *machine) keep(t issued) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last = t
}

// current returns the token. Before the first refusal of the server it is "".
func (m *machine) current(ctx context.Context) (string, error) {
	last, found := m.lastToken(), m.finder.known()
	if last.by == "" || found == nil || ageOf(last.Token, wall()) == young {
		return last.Access, nil
	}
	next, err := m.next(ctx, *found, last, nil)
	if err != nil && ageOf(last.Token, wall()) == old {
		return last.Access, nil
	}
	return next, err
}

// refused gets another token than the refused one.
func (m *machine) refused(ctx context.Context, token string, c oauth.Challenge, forbidden bool) error {
	last := m.lastToken()
	age := ageOf(last.Token, wall())
	if last.by != "" && last.Access != token && age != tooOld {
		return nil
	}
	found, err := m.finder.find(ctx, c, token != "")
	switch {
	case err != nil:
		return err
	case forbidden:
		if m.count(c.Scopes, token) >= maxSteps {
			return fmt.Errorf("the server asks for the scopes %q again though the router asked for them", c.Scopes)
		}
	case last.Access == token && age == young && wall().Sub(last.Obtained).Abs() < youngTime && last.by == found.Issuer.ID:
		return fmt.Errorf("the server refuses a token that %s has just issued to the client of oauth.clientId", found.Issuer.ID)
	}
	_, err = m.next(ctx, *found, last, c.Scopes)
	return err
}

// next gets the token that follows on last. Callers that have the same last one get the same next
// one.
func (m *machine) next(ctx context.Context, found oauth.Found, last issued, more []string) (string, error) {
	var granted []string
	if len(m.server.Settings.Scopes) == 0 {
		granted = last.Scopes
	}
	scopes := oauth.ScopesToAsk(m.server.Settings, &found, oauth.Challenge{Scopes: more}, granted)
	if failed := m.outage.recent(); failed != nil {
		return "", failed
	}
	result, err := m.tasks.do(ctx, "machine"+last.Access, refreshTime, func(ctx context.Context) (any, error) {
		if now := m.lastToken(); now.Access != last.Access {
			return now.Access, nil
		}
		if err := m.account.permit(ctx, found.Issuer.ID, true); err != nil {
			m.finder.learn(nil) // the next request is sent without a token: the server may name the first issuer again
			m.keep(issued{})
			return "", err
		}
		token, err := m.issuer.credentials(ctx, m.server, found, scopes)
		if err != nil {
			err = fmt.Errorf("get a token from %s with the client's own credentials: %w", found.Issuer.ID, err)
			m.outage.begin(err)
			return "", err
		}
		m.outage.end()
		m.keep(issued{token, found.Issuer.ID})
		return token.Access, nil
	})
	token, _ := result.(string)
	return token, err
}
