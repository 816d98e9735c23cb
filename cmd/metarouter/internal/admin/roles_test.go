package admin

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/server"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// No route serves a client with a token of the role "use", nor a stranger. A new route goes into
// routes, and is walked over here.
func TestRoutesNeedAdmin(t *testing.T) {
	s := open(t)
	mux := http.NewServeMux()
	s.API.Register(mux, s.router, s.mcp)
	principal := func(token string, admin bool) clientauth.Principal {
		return clientauth.Principal{Hash: fmt.Sprintf("%x", sha256.Sum256([]byte(token))), Name: token, Admin: admin}
	}
	h := s.mcp.Handler(server.HTTPOptions{Pages: mux, Tokens: []clientauth.Principal{principal("use", false), principal("admin", true)}})
	defer h.Close(context.Background())
	paths := strings.NewReplacer("{$}", "", "{file...}", "app.js", "{name}", "none", "{id}", "none", "{action}", "restart")
	for _, route := range routes {
		method, path, _ := strings.Cut(paths.Replace(route.pattern), " ")
		for token, want := range map[string]int{"use": http.StatusForbidden, "none": http.StatusUnauthorized} {
			r := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader("{}"))
			r.Header.Set("Content-Type", "application/json")
			r.Header.Set("Authorization", "Bearer "+token)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			expect.Equal(t, w.Code, want, "%s with the token %s: %s", route.pattern, token, w.Body)
		}
	}
	source, err := os.ReadFile("admin.go")
	expect.OK(t, err)
	expect.Equal(t, strings.Count(string(source), "mux.Handle"), 1, "admin.go adds routes at … places; add them to routes")
}
