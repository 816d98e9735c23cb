package httpd

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/server/internal/identity"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A new route is for administrators alone.
func TestRoutesForAdmins(t *testing.T) {
	for to := range routes + 1 {
		expect.Equal(t, to.isForAdmins(), to == routePage || to == routeCallback || to == routes, "route %d", to)
	}
}

// Each route has a path, and the prefix of the public URL hides no route, whether a proxy strips
// it or not.
func TestRoutesOfPaths(t *testing.T) {
	pages := http.NewServeMux()
	pages.HandleFunc("GET /{$}", func(http.ResponseWriter, *http.Request) {})
	pages.HandleFunc("GET /dashboard/events", func(http.ResponseWriter, *http.Request) {})
	paths := map[route][]string{
		routeMCP: {"/mcp", "/mcp/", "/mcp/tools/list", "/mcp/p/work", "/mcp/p/work/tools/list"}, routeHealth: {"/health"}, routeMesh: {"/v1/mesh_scan"},
		routePage: {"/dashboard/events"}, routeLogin: {"/login", "/logout"}, routeCallback: {"/oauth/callback", "/oauth/callback/continue"},
		routeDocument: {"/oauth/client.json"}, routeMetadata: {"/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource" + "/mcp"}, routeElse: {"/x", "/mcpx", "/.well-known/x", "/.well-known/oauth-protected-resource" + "x"},
	}
	for to := range routes {
		all := paths[to]
		if len(all) == 0 {
			t.Errorf("route %d: give it a path", to)
		}
		for _, prefix := range []string{"", "/router", "/a b", "/oauth", "/login", "/dashboard", "/mcp/x", "/mcp/p/work", "/.well-known"} {
			rules := &identity.Rules{Prefix: prefix}
			for _, path := range all {
				for _, asked := range []string{path, prefix + path} { // stripped by a proxy, and not
					if to == routeElse && asked == "/mcpx" {
						continue
					}
					r := httptest.NewRequest(http.MethodGet, "http://localhost/", nil)
					r.URL.Path = asked
					if got := unprefixed(r, rules, pages).URL.Path; got != path && !(to == routeElse && got == asked) {
						t.Errorf("with the prefix %q, %s is served as %s, want %s", prefix, asked, got, path)
					}
				}
				r := httptest.NewRequest(http.MethodGet, "http://localhost/", nil)
				r.URL.Path = path
				expect.Equal(t, routeOf(path, isPage(pages, r)), to, "%s: route", path)
			}
		}
	}
}

// Links of the page are relative, so a browser that leaves the slash out is sent to the page with it.
func TestPrefixWithoutSlash(t *testing.T) {
	pages := http.NewServeMux()
	pages.HandleFunc("GET /{$}", func(http.ResponseWriter, *http.Request) {})
	b := new(Backend)
	h := New(&Backends{Of: func(...string) (*Backend, bool) { return b, true }, All: func() []*Backend { return nil }, Log: zap.NewNop()},
		Options{PublicURL: "https://tools.example/router", Pages: pages})
	defer h.Close(context.Background())
	for path, want := range map[string]int{"/router?x=1": http.StatusSeeOther, "/router/": http.StatusOK, "/": http.StatusOK} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://tools.example"+path, nil))
		if w.Code != want || want == http.StatusSeeOther && w.Header().Get("Location") != "/router/" {
			t.Errorf("%s: %d %v, want %d", path, w.Code, w.Header(), want)
		}
	}
}
