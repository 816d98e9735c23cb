package login

import (
	"strings"
	"sync"
)

// stepUps count refusals for missing scopes. The zero value has no refusals.
type stepUps struct {
	mu     sync.Mutex                 // guards logins
	logins map[string]map[string]bool // that did not suffice, by the scopes
}

const (
	maxSteps  = 3   // logins for the same scopes
	maxScopes = 100 // sets of scopes that are counted
)

// count returns how many logins did not suffice for the scopes, with this one.
func (u *stepUps) count(scopes []string, login string) int {
	u.mu.Lock()
	defer u.mu.Unlock()
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
