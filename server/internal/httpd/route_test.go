package httpd

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.uber.org/zap"
)

// Every route is judged.
func TestRoutesAreJudged(t *testing.T) {
	for to := range routes {
		if judged[to] == 0 {
			t.Errorf("route %d: say in judged what it needs", to)
		}
	}
}

// Over TLS, perhaps of a proxy, browsers never send the cookie without TLS.
func TestCookieIsSecure(t *testing.T) {
	for _, tt := range []struct {
		target, public string
		header, value  string
		sso, secure    bool
	}{
		{"https://localhost/", "", "", "", false, true},
		{"http://localhost/", "", "", "", false, false},
		{"http://tools.example/", "https://tools.example/a", "", "", false, true}, // a proxy with TLS
		{"http://tools.example/", "https://Tools.example:443/a", "", "", false, true},
		{"http://tools.example:443/", "https://tools.example/a", "", "", false, true},
		{"http://tools.example/", "https://tools.example:8443/a", "", "", false, false},
		{"http://localhost/", "https://tools.example/a", "", "", false, false},                           // past it
		{"http://localhost/", "https://tools.example/a", "Origin", "http://localhost", false, false},     // past it
		{"http://localhost/", "https://tools.example/a", "Origin", "https://tools.example", false, true}, // it changes the Host
		{"http://localhost/", "https://tools.example/a", "X-Forwarded-Proto", "https", false, true},      // it changes the Host
		{"http://localhost/", "https://tools.example/a", "X-Forwarded-Proto", "http", false, false},      // past it
		{"http://localhost/", "http://localhost", "X-Forwarded-Proto", "https", false, false},
		{"http://localhost/", "https://tools.example/a", "", "", true, true}, // the issuer has redirected to the public URL
		{"http://localhost/", "http://localhost", "", "", true, false},
	} {
		w, s := httptest.NewRecorder(), &browserSession{begun: time.Now()}
		if tt.sso {
			s.issuer = "https://id.example"
		}
		o := Options{Bound: "127.0.0.1:1", PublicURL: tt.public}
		l := newLogin(o, newAudited(nil, newWork()), zap.NewNop())
		r := httptest.NewRequest(http.MethodGet, tt.target, nil)
		if tt.header != "" {
			r.Header.Set(tt.header, tt.value)
		}
		l.letIn(w, (&request{rules: newRules(&o, nil)}).with(r), s)
		c := w.Result().Cookies()[0]
		if c.Secure != tt.secure || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.MaxAge < 11*60*60 || c.MaxAge > 12*60*60 {
			t.Errorf("%+v: %+v", tt, c)
		}
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
		routeDocument: {"/oauth/client.json"}, routeMetadata: {metadataPath, metadataPath + "/mcp"}, routeElse: {"/x", "/mcpx", "/.well-known/x", metadataPath + "x"},
	}
	for to := range routes {
		all := paths[to]
		if len(all) == 0 {
			t.Errorf("route %d: give it a path", to)
		}
		for _, prefix := range []string{"", "/router", "/a b", "/oauth", "/login", "/dashboard", "/mcp/x", "/mcp/p/work", "/.well-known"} {
			rules := &rules{prefix: prefix}
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
				if got := routeOf(path, isPage(pages, r)); got != to {
					t.Errorf("%s: route %d, want %d", path, got, to)
				}
			}
		}
	}
}
