//go:build linux

package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A person without a token, or with one that gives nothing, learns no name from any route.
func TestOAuthWalk(t *testing.T) {
	t.Parallel()
	m := newTeam(t, false)
	routes := walk(t)
	if len(routes) < 40 {
		t.Fatalf("only %d routes were found: %q", len(routes), routes)
	}
	names := []string{"quill", "kite", "write_note", "greet_writer", "workbench", "opsroom", "robot", "ann", "devs", "ops"}
	for _, visitor := range []struct {
		name, token string
		hidden      []string
	}{
		{"without a token", "", names},
		{"a bad token", m.token("ann", "exp", 1), names},
		{"a user without a profile", m.token("cid"), names},
		{"a user of one profile", m.token("ann"), []string{"kite", "opsroom", "robot"}},
		{"a fixed token of one profile", usersToken, []string{"kite", "opsroom", "ann"}},
	} {
		t.Run(visitor.name, func(t *testing.T) {
			for _, route := range routes {
				method, path, _ := strings.Cut(route, " ")
				response, body := m.send(method, m.origin+path, bearer(visitor.token), `{}`)
				text := body + flat(response.Header)
				for _, sent := range []string{path, "/mcp/p/opsroom"} {
					text = strings.ReplaceAll(text, sent, "")
				}
				for _, name := range visitor.hidden {
					if regexp.MustCompile(`(?i)(\b|_)` + name + `(\b|_)`).MatchString(text) {
						t.Errorf("%s: %s tells %q: %s", route, response.Status, name, text)
					}
				}
				if response.StatusCode >= 500 {
					t.Errorf("%s: %s %s", route, response.Status, body)
				}
			}
		})
	}
	// A profile that exists looks like one that does not.
	for _, token := range []string{"", m.token("ann", "exp", 1), m.token("cid"), m.token("ann"), usersToken} {
		for _, prefix := range []string{"/mcp/p/", "/.well-known/oauth-protected-resource/mcp/p/"} {
			there, known := m.send(http.MethodPost, m.origin+prefix+"opsroom/tools/list", bearer(token), `{}`)
			gone, unknown := m.send(http.MethodPost, m.origin+prefix+"opsrook/tools/list", bearer(token), `{}`)
			if there.StatusCode != gone.StatusCode || known != strings.ReplaceAll(unknown, "opsrook", "opsroom") ||
				flat(there.Header) != strings.ReplaceAll(flat(gone.Header), "opsrook", "opsroom") {
				t.Errorf("%s: %s %s %s\n%s %s %s", prefix, there.Status, known, flat(there.Header), gone.Status, unknown, flat(gone.Header))
			}
		}
	}
}

// flat returns the headers as text, without the date.
func flat(h http.Header) string {
	var all []string
	for name, values := range h {
		if name != "Date" {
			all = append(all, name+": "+strings.Join(values, ", "))
		}
	}
	slices.Sort(all)
	return "\n" + strings.Join(all, "\n")
}

// walk returns the routes of the program, each "METHOD /path".
func walk(t *testing.T) (routes []string) {
	t.Helper()
	for _, folder := range []string{"cmd/metarouter/internal/admin", "cmd/metarouter/internal/service"} {
		files, err := filepath.Glob(filepath.Join("../..", folder, "*.go"))
		expect.OK(t, err)
		for _, file := range files {
			text, err := os.ReadFile(file)
			expect.OK(t, err)
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			for _, found := range regexp.MustCompile(`"((?:GET|POST) /[^"]*)"`).FindAllSubmatch(text, -1) {
				route := strings.NewReplacer("{$}", "", "{file...}", "app.js", "{name}", "quill", "{action}", "restart", "{id}", "1").Replace(string(found[1]))
				routes = append(routes, route)
			}
		}
	}
	for _, path := range []string{"/mcp", "/mcp/p/opsroom", "/mcp/p/nothing"} {
		routes = append(routes, "GET "+path, "POST "+path, "DELETE "+path, "OPTIONS "+path)
		for _, method := range []string{"tools/list", "tools/call", "prompts/list", "resources/list", "resources/templates/list", "initialize", "server/discover", "ping", "completion/complete", "logging/setLevel", "nothing"} {
			routes = append(routes, "POST "+path+"/"+method)
		}
		routes = append(routes, "GET /.well-known/oauth-protected-resource"+path)
	}
	for _, path := range []string{"/.well-known/oauth-protected-resource", "/.well-known/oauth-authorization-server", "/.well-known/openid-configuration", "/.well-known/x",
		"/health", "/v1/mesh_scan", "/login", "/login/with", "/login/callback", "/logout", "/oauth/callback", "/oauth/callback/continue", "/oauth/client.json", "/nothing", "/debug/pprof/"} {
		routes = append(routes, "GET "+path, "POST "+path)
	}
	return routes
}
