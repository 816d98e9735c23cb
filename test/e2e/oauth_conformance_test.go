//go:build linux

package e2e

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/external"
	"github.com/mcp-metarouter/metarouter/test/layer"
)

// The suite has no tokens, so a relay adds one. What passes without OAuth passes with it; see
// TestConformance.
func TestOAuthConformance(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	for _, test := range []struct {
		revision  string
		stateless bool
		mode      string
		passed    int
		leftOut   []string
	}{
		{"2026-07-28", true, "direct", 153, nil},
		{"2025-11-25", false, "direct", 82, nil},
		{"2026-07-28", true, "search", 0, aboutToolNames},
		{"2025-11-25", false, "search", 0, aboutToolNames},
	} {
		t.Run(test.revision+"/"+test.mode, func(t *testing.T) {
			t.Parallel()
			external.Node22(t)
			if os.Getenv(longVariable) == "" && (!test.stateless || test.mode != "direct") {
				t.Skip("only with " + longVariable)
			}
			m := newTeam(t, teamOptions{
				servers: entries{"everything": {"type": "http", "url": external.EverythingHTTP(t, test.stateless)}},
				own:     map[string]any{"mode": test.mode, "names": "bare"},
				http:    map[string]any{"tokens": []any{}},
			})
			relay := m.relay(t)
			passed, failed := tally(external.ServerConformance(t, relay, test.revision), test.leftOut)
			for _, line := range failed {
				t.Error(line)
			}
			if passed < test.passed {
				t.Errorf("%d checks passed, without OAuth %d do", passed, test.passed)
			}
			if t.Failed() {
				t.Logf("stderr of the router:\n%s", m.router.Stderr())
			}
		})
	}
}

// relay starts a reverse proxy that adds a token to each request, and returns its URL of the MCP
// path. The token is that of an administrator without a profile: clients of a profile do not hear that
// a list has changed if theirs has not, but one scenario wants that.
func (m *team) relay(t *testing.T) string {
	t.Helper()
	token := m.token("eve", "groups", "root", "exp", time.Now().Add(time.Hour).Unix())
	origin, err := url.Parse(m.origin)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(readFirst(&httputil.ReverseProxy{
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(origin)
			r.Out.Host = r.In.Host // of which the router judges
			r.Out.Header.Set("Authorization", "Bearer "+token)
		},
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL + "/mcp"
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
