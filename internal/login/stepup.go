package login

import (
	"fmt"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/oauth"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

// stepUps count refusals for missing scopes. The zero value has none.
type stepUps struct {
	logins map[string]map[string]bool // that did not suffice, by the scopes
}

const (
	maxSteps  = 3   // logins for the same scopes
	maxScopes = 100 // sets of scopes that are counted
)

// count returns how many logins did not suffice for the scopes, with this one.
func (u *stepUps) count(scopes []string, login string) int {
	name := strings.Join(scopes, " ")
	if u.logins == nil || len(u.logins) >= maxScopes {
		u.logins = make(map[string]map[string]bool)
	}
	if u.logins[name] == nil {
		u.logins[name] = make(map[string]bool)
	}
	if len(u.logins[name]) < maxSteps {
		u.logins[name][login] = true
	}
	return len(u.logins[name])
}

// stepUp returns the error of a login that does not permit a request.
func (s *Source) stepUp(e *entry, c oauth.Challenge) error {
	s.mu.Lock()
	tries := s.steps.count(c.Scopes, e.ID)
	s.mu.Unlock()
	if tries >= maxSteps {
		return fmt.Errorf("the server asks for the scopes %q again though %d logins asked for them; the issuer does not grant them to you, or the server never accepts them",
			strings.Join(c.Scopes, " "), tries-1)
	}
	err := s.needed(status.ScopeMissing, e, nil)
	err.Scopes = c.Scopes
	return err
}
