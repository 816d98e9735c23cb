package doctor

import (
	"fmt"
	"strings"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/oauth"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

// explainLogin says why a person must log in to a server, and how.
func explainLogin(entry config.Server, f *status.Fault) (problem, fix string, why []string) {
	at := host(entry)
	why = oneLine(strings.TrimPrefix(strings.TrimPrefix(f.Message, f.Login.Text()), ": "))
	problem = fmt.Sprintf("%s requires a login, and %s.", at, f.Login.Text())
	fix = "run: metarouter login " + word(entry.Name)
	switch f.Login {
	case status.IssuerUnreachable:
		fix = "check the network; the next call tries it again"
		if f.Issuer != "" {
			fix = fmt.Sprintf("check whether %s can be reached from here; the next call tries it again", f.Issuer)
		}
	case status.TokenRejected:
		fix += `; if that does not help, the tokens are for another server: set "resource" or "scopes" in "oauth" of its entry as its documentation says`
	case status.ScopeMissing:
		fix += "; the account that you log in with must have that permission"
	}
	return problem, fix, why
}

// explainNoToken says why the router itself gets no token for a server.
func explainNoToken(entry config.Server, f *status.Fault) (problem, fix string) {
	at := host(entry)
	if f.Code == 403 {
		return fmt.Sprintf("%s refuses the router's requests (HTTP 403).", at), "does the account of the login or of the token have access to the server? Else ask the people who run it"
	}
	if entry.OAuth != nil && entry.OAuth.Grant == string(oauth.ClientCredentials) {
		return fmt.Sprintf("%s requires a token, and the router gets none with its client credentials.", at),
			`correct "clientId", and "clientSecret" or "privateKey", in "oauth" of its entry, then run: metarouter restart ` + word(entry.Name)
	}
	return fmt.Sprintf("%s requires a token, and who issues it can't be found out.", at),
		`check the network; if the server has no login, write "headers": {"Authorization": "Bearer ${` + variableOf(entry.Name) + `}"} into its entry`
}
