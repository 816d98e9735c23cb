//go:build linux

package e2e

import (
	"bytes"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/external"
	"github.com/mcp-metarouter/metarouter/test/layer"
)

// People log in to the page at the team's identity provider in a browser: testdata/signin.mjs says
// how. The router is below a path of a proxy, which strips the path, and has another site than the
// issuer.
func TestSignInOnPage(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	external.Program(t, "chromium")
	proxy := httptest.NewUnstartedServer(nil)
	public := "http://localhost:" + proxy.Listener.Addr().String()[len("127.0.0.1:"):] + "/router"
	issuer := external.StartIssuerWith(t, external.IssuerOptions{
		Life: 7 * time.Second, Scopes: []string{"mcp:read", "mcp:call", "mcp:admin"}, Resources: public + "/",
		Groups: map[string][]string{"ann": {"devs"}, "bob": {"devs", "ops"}}, JWT: true,
	})
	client := registerClient(t, issuer.URL, map[string]any{ // as an administrator does by hand
		"client_name": "metarouter", "application_type": "native", "redirect_uris": []string{public + "/login/callback"},
		"grant_types": []string{"authorization_code", "refresh_token"}, "response_types": []string{"code"},
		"token_endpoint_auth_method": "client_secret_basic",
	})
	s := prepare(t, entries{"remote": fake("-tools", "echo")}, map[string]any{
		"profiles": map[string]any{"work": map[string]any{"servers": []string{"remote"}}},
		"http": map[string]any{
			"publicUrl": public,
			"oauth": map[string]any{"issuers": []any{map[string]any{
				"url": issuer.URL, "clientId": client.ID, "clientSecret": client.Secret,
				"profiles": map[string]any{"groups=devs": "work"}, "admins": []string{"groups=ops"},
			}}},
		},
	})
	direct, process := s.serveHTTP()
	to, err := url.Parse(strings.TrimSuffix(direct, "/mcp"))
	expect.OK(t, err)
	forward := httputil.NewSingleHostReverseProxy(to)
	stripped := http.StripPrefix("/router", forward)
	proxy.Config.Handler = readFirst(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/router" { // as of a proxy with a rule for /router/
			forward.ServeHTTP(w, r)
			return
		}
		stripped.ServeHTTP(w, r)
	}))
	proxy.Config.ErrorLog = log.New(io.Discard, "", 0) // of browsers that leave
	forward.ErrorLog = proxy.Config.ErrorLog
	proxy.Start()
	t.Cleanup(func() {
		proxy.CloseClientConnections()
		proxy.Close()
	})
	shots := os.Getenv("METAROUTER_SHOTS")
	if shots == "" {
		shots = t.TempDir()
	}
	runPage(t, "signin.mjs", map[string]any{"url": public, "issuer": issuer.URL, "shots": shots})
	for _, secret := range []string{"code=", "state=", "eyJ", client.Secret} {
		expect.Equal(t, strings.Contains(process.Stderr(), secret), false, "the log has %s:\n%s", secret, process.Stderr())
	}
}

// readFirst returns a handler that reads the body of each request before it calls the proxy. Else
// the proxy may still look for the body's end when the answer begins; then net/http closes the
// body, and the proxy cuts the answer (https://go.dev/issue/40747).
func readFirst(proxy http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	})
}
