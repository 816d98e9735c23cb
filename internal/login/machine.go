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
	account *account
	finder  *finder
	tasks   *tasks
	outage  *outage
	steps   *stepUps
	issuer  issuer

	mu     sync.Mutex   // guards the fields below
	last   *oauth.Token // nil before the first one
	lastOf string       // the issuer of last
}

func (m *machine) lastToken() (token *oauth.Token, issuer string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last, m.lastOf
}

func (m *machine) keep(token *oauth.Token, issuer string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last, m.lastOf = token, issuer
}

// current returns the token. Before the first refusal of the server it is "".
func (m *machine) current(ctx context.Context) (string, error) {
	token, _ := m.lastToken()
	found := m.finder.known()
	switch {
	case token == nil || found == nil:
		return "", nil
	case ageOf(*token, wall()) == young:
		return token.Access, nil
	}
	next, err := m.next(ctx, *found, token, nil)
	if err != nil && ageOf(*token, wall()) == old {
		return token.Access, nil
	}
	return next, err
}

// refused gets another token than the refused one.
func (m *machine) refused(ctx context.Context, token string, c oauth.Challenge, forbidden bool) error {
	last, of := m.lastToken()
	if last != nil && last.Access != token && ageOf(*last, wall()) != tooOld {
		return nil
	}
	found, err := m.finder.find(ctx, c, token != "")
	switch {
	case err != nil:
		return err
	case forbidden:
		if m.steps.count(c.Scopes, token) >= maxSteps {
			return fmt.Errorf("the server asks for the scopes %q again though the router asked for them", c.Scopes)
		}
	case last != nil && last.Access == token && ageOf(*last, wall()) == young && wall().Sub(last.Obtained).Abs() < youngTime && of == found.Issuer.ID:
		return fmt.Errorf("the server refuses a token that %s has just issued to the client of oauth.clientId", found.Issuer.ID)
	}
	_, err = m.next(ctx, *found, last, c.Scopes)
	return err
}

// next gets the token that follows on last, which may be nil. Callers that have the same last
// one get the same next one.
func (m *machine) next(ctx context.Context, found oauth.Found, last *oauth.Token, more []string) (string, error) {
	name, settings := "machine", m.account.server.Settings
	var granted []string
	if last != nil {
		name += last.Access
		if len(settings.Scopes) == 0 {
			granted = last.Scopes
		}
	}
	scopes := oauth.ScopesToAsk(settings, &found, oauth.Challenge{Scopes: more}, granted)
	if failed := m.outage.recent(); failed != nil {
		return "", failed
	}
	result, err := m.tasks.do(ctx, name, refreshTime, func(ctx context.Context) (any, error) {
		if now, _ := m.lastToken(); now != last && now != nil {
			return now.Access, nil
		}
		if err := m.account.pin(ctx, found.Issuer.ID); err != nil {
			m.finder.learn(nil) // the next request is sent without a token: the server may name the first issuer again
			m.keep(nil, "")
			return "", err
		}
		token, err := m.issuer.credentials(ctx, m.account.server, found, scopes)
		if err != nil {
			err = fmt.Errorf("get a token from %s with the client's own credentials: %w", found.Issuer.ID, err)
			m.outage.begin(err)
			return "", err
		}
		m.outage.end()
		m.keep(&token, found.Issuer.ID)
		return token.Access, nil
	})
	token, _ := result.(string)
	return token, err
}
