// Package login keeps the logins at remote MCP servers: who is logged in, with which token, and
// how a login is made and ended.
//
// All routers of a user share the [Store], so that one login serves all clients. A [Source] gives
// requests to a server their token, and refreshes it: one refresh at a time for all routers. A
// [Pending] is a login that waits for its person.
package login

import (
	"fmt"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/commandline"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

// A NeededError says that a person must log in, and why.
type NeededError struct {
	Server string // its name
	Why    status.LoginReason
	Issuer string   // "" if it is not known
	Scopes []string // that are missing, for [status.ScopeMissing]
	Err    error    // the cause, without a secret; may be nil
}

func (e *NeededError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %v", e.Why.Text(), e.Err)
	}
	return e.Why.Text()
}

func (e *NeededError) Unwrap() error { return e.Err }

// Advice says in plain words why a login is needed, and how a person logs in.
func (e *NeededError) Advice() string {
	switch e.Why {
	case status.IssuerUnreachable:
		return e.Error() + "; it is tried again with the next call"
	case status.TokenRejected:
		return e.Error() + `; set "resource" or "scopes" in "oauth" of its entry as the server's documentation says, then run: ` + e.Command()
	}
	return e.Error() + "; run: " + e.Command()
}

// Command returns the command by which a person logs in to the server, as it is typed in a
// shell. It asks for the scopes that are missing.
func (e *NeededError) Command() string {
	command := "metarouter login " + commandline.Quote(e.Server)
	if e.Why == status.ScopeMissing {
		for _, scope := range e.Scopes {
			command += " --scope " + commandline.Quote(scope)
		}
	}
	return command
}

// A State says how the login of a server is.
type State struct {
	LoggedIn bool
	Issuer   string
	Scopes   []string
	Expires  time.Time          // of the access token; zero if unknown
	Renews   bool               // there is a refresh token
	Why      status.LoginReason // why a login is needed; "" if it is not, as far as is known
}
