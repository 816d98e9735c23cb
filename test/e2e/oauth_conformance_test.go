//go:build linux

package e2e

import (
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/external"
)

// The suite has no tokens, so a relay adds one. What passes without OAuth passes with it; see
// TestConformance.
func TestOAuthConformance(t *testing.T) {
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
			if _, long := longTime(t); !long && (!test.stateless || test.mode != "direct") {
				t.Skip("only with " + longVariable)
			}
			m := newTeam(t, teamOptions{
				servers: entries{"everything": {"type": "http", "url": external.EverythingHTTP(t, test.stateless)}},
				own:     map[string]any{"mode": test.mode, "names": "bare"},
				http:    map[string]any{"tokens": []any{}},
			})
			relay := m.relay(t)
			passed, failed := tally(external.ServerConformance(t, relay, test.revision), test.leftOut)
			if len(failed) == 1 && (strings.Contains(failed[0], "no notifications/tools/list_changed arrived") || strings.HasSuffix(strings.TrimSpace(failed[0]), "Failed: terminated")) {
				// The suite waits for a moment only, which a loaded machine may need. At times the
				// connection through the relay ends, and not yet clear is why.
				passed, failed = tally(external.ServerConformance(t, relay, test.revision), test.leftOut)
			}
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
	server := httptest.NewServer(&httputil.ReverseProxy{
		FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(origin)
			r.Out.Host = r.In.Host // of which the router judges
			r.Out.Header.Set("Authorization", "Bearer "+token)
		},
	})
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL + "/mcp"
}
