package login

import (
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/commandline"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

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
	words := []string{"metarouter", "login", e.Server}
	if e.Why == status.ScopeMissing {
		for _, scope := range e.Scopes {
			words = append(words, "--scope", scope)
		}
	}
	for i, w := range words {
		words[i] = commandline.Quote(w)
	}
	return strings.Join(words, " ")
}
