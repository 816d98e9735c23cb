//go:build linux

package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/external"
	"github.com/mcp-metarouter/metarouter/test/layer"
)

// Tokens that are no JWTs are judged by a real issuer, where people log in.
func TestOAuthIntrospection(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	external.Node22(t)
	m := newTeam(t, teamOptions{people: true, opaque: true, rules: map[string]any{
		"introspect": true, "clientId": "resource-server", "clientSecret": "resource-secret",
	}})
	ann, below := m.logIn("ann", m.url, "mcp:call"), m.logIn("ann", m.url+"/p/workbench", "mcp:call")
	for _, test := range []struct {
		name, token, path string
		status            int
		sees              string
	}{
		{"ann", ann, "", http.StatusOK, "quill__echo"},
		{"bob", m.logIn("bob", m.url, "mcp:call", "mcp:admin"), "", http.StatusOK, "kite__pid"},
		{"no group", m.logIn("cid", m.url, "mcp:call"), "", http.StatusForbidden, ""},
		{"a profile's path", below, "/p/workbench", http.StatusOK, "quill__echo"},
		{"of another path", below, "", http.StatusUnauthorized, "invalid_token"},
		{"unknown", "abc" + ann, "", http.StatusUnauthorized, "invalid_token"},
	} {
		response, body := m.list(test.path, test.token)
		if said := body + response.Header.Get("WWW-Authenticate"); response.StatusCode != test.status || !strings.Contains(said, test.sees) {
			t.Errorf("%s: %s %s", test.name, response.Status, said)
		}
	}
}
