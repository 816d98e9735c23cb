//go:build linux

package e2e

import (
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/external"
	"github.com/mcp-metarouter/metarouter/test/fakeissuer"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// A person logs in on the page in a browser: testdata/login.mjs says how. The second router has
// another site than the issuer.
func TestLoginOnPage(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	external.Program(t, "chromium")
	issuer := fakeissuer.New(t, fakeissuer.Options{})
	s := prepareLogin(t, issuer, nil)
	url, open := s.serveHTTP()

	const token = "open-sesame"
	resource := issuer.Protect(t, fakeissuer.Protection{Flags: []string{"-tools", "echo"}})
	servers := entries{"remote": {"type": "http", "url": resource.URL}}
	tokens := []map[string]any{{"token": token, "name": "ops", "role": "admin"}}
	behind := prepare(t, servers, map[string]any{"http": map[string]any{"tokens": tokens}})
	behind.home, behind.env = s.home, s.env
	guarded, process := behind.serveHTTP()
	guarded = strings.Replace(strings.TrimSuffix(guarded, "/mcp"), "127.0.0.1", "localhost", 1)
	behind.write(servers, map[string]any{"http": map[string]any{"tokens": tokens, "publicUrl": guarded}})
	mcptest.WaitFor(t, "the document of the client", func() bool {
		response, err := http.Get(guarded + "/oauth/client.json")
		if err != nil {
			return false
		}
		defer response.Body.Close()
		return response.StatusCode == http.StatusOK
	})
	shots := os.Getenv("METAROUTER_SHOTS")
	if shots == "" {
		shots = t.TempDir()
	}
	runPage(t, "login.mjs", map[string]any{"url": strings.TrimSuffix(url, "/mcp"), "guarded": guarded, "token": token, "issuer": issuer.URL, "shots": shots})
	for _, router := range []*mcptest.Client{open, process} {
		for _, secret := range []string{"code=", "state=", "code-"} {
			expect.Equal(t, strings.Contains(router.Stderr(), secret), false, "the log has %s:\n%s", secret, router.Stderr())
		}
	}
	expect.Equal(t, issuer.Counts().Authorizations, 2, "logins")
}
