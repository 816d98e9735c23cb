package login

import (
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// The command is safe to paste, though scopes come from a server.
func TestCommand(t *testing.T) {
	for want, e := range map[string]*NeededError{
		"metarouter login linear":                               {Server: "linear", Why: status.NeverLoggedIn},
		"metarouter login b":                                    {Server: "b", Why: status.NeverLoggedIn, Scopes: []string{"read"}},
		"metarouter login 'my notes'":                           {Server: "my notes"},
		"metarouter login a --scope read:all --scope mcp.write": {Server: "a", Why: status.ScopeMissing, Scopes: []string{"read:all", "mcp.write"}},
		`metarouter login a --scope '$(id)' --scope ''\''; x'`:  {Server: "a", Why: status.ScopeMissing, Scopes: []string{"$(id)", "'; x"}},
	} {
		expect.Equal(t, e.Command(), want)
	}
}

func TestAdvice(t *testing.T) {
	for why, want := range map[status.LoginReason]string{
		status.NeverLoggedIn:     "; run: metarouter login docs",
		status.ScopeMissing:      "; run: metarouter login docs --scope write",
		status.IssuerUnreachable: "; it is tried again with the next call",
		status.TokenRejected:     `; set "resource" or "scopes" in "oauth" of its entry as the server's documentation says, then run: metarouter login docs`,
	} {
		e := &NeededError{Server: "docs", Why: why, Scopes: []string{"write"}}
		expect.Equal(t, e.Advice(), why.Text()+want, "%s", why)
	}
}
