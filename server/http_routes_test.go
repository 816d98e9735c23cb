package server

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/internal/login"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// The walk over all routes: what each client is answered, by who it has proved to be. With 401 it
// learns where to log in, with 403 for a lack of scopes what to ask for, and nothing else.
func TestWalkOfRoutes(t *testing.T) {
	pages := http.NewServeMux()
	pages.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "the page") })
	pages.HandleFunc("POST /dashboard/act", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "done") })
	pages.HandleFunc("GET /metrics", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "metrics") })
	f := newFakeIssuer()
	f.proofs["ruled"] = f.proof("ruled", clientauth.Principal{Admin: true}, "tools.admin")
	o := f.options()
	o.Tokens, o.Pages, o.Logins = tokens("fixed"), pages, &fakeLogins{by: tokens("fixed")[0].Hash, document: []byte(`{"client_id":"x"}`)}
	use := tokens("use")[0]
	use.Name, use.Admin = "ci", false
	o.Tokens = append(o.Tokens, use)
	w := serveIssued(t, o)

	clients := []string{"", "bad", "bob", "rita", "fake", "admin", "fixed", "use"}
	type statuses [8]int // by client
	all := func(status int) statuses {
		return statuses{status, status, status, status, status, status, status, status}
	}
	in := func(status int) statuses {
		return statuses{401, 401, status, status, status, status, status, status}
	}
	admins := func(status int) statuses { return statuses{401, 401, 403, 403, 403, status, status, 403} }
	ping, call := rpc("ping", ""), rpc("tools/call", `"name":"a__write","arguments":{}`)
	steps := in(200)
	steps[3] = 403 // rita may only read
	for _, tt := range []struct {
		method, path, body string
		want               statuses
	}{
		{http.MethodPost, "/mcp", ping, in(200)},
		{http.MethodPost, "/mcp", call, steps},
		{http.MethodPost, "/mcp/p/work", call, steps},
		{http.MethodPost, "/mcp/ping", "{}", in(200)},
		{http.MethodPost, "/mcp/p/work/ping", "{}", in(200)},
		{http.MethodPost, "/mcp/p/none", ping, in(404)},
		{http.MethodGet, "/mcp", "", in(405)},
		{http.MethodOptions, "/mcp", "", in(405)},
		{http.MethodGet, "/mcp/p", "", in(404)},
		{http.MethodGet, "/mcp/p/", "", in(404)},
		{http.MethodGet, "/health", "", all(200)},
		{http.MethodPost, "/health", "{}", in(405)},
		{http.MethodGet, "/v1/mesh_scan", "", in(200)},
		{http.MethodGet, "/", "", admins(200)},
		{http.MethodPost, "/dashboard/act", "{}", admins(200)},
		{http.MethodGet, "/metrics", "", admins(200)},
		{http.MethodGet, "/router/metrics", "", admins(200)},
		{http.MethodGet, "/router/", "", admins(200)},
		{http.MethodGet, login.CallbackPath + "?code=1", "", statuses{200, 200, 403, 403, 403, 400, 200, 403}},
		{http.MethodGet, login.CallbackPath + "/continue?code=1", "", statuses{403, 403, 403, 403, 403, 400, 200, 403}},
		{http.MethodGet, login.DocumentPath, "", all(200)},
		{http.MethodGet, "/router" + login.DocumentPath, "", all(200)},
		{http.MethodGet, "/.well-known/oauth-protected-resource", "", all(200)},
		{http.MethodGet, "/.well-known/oauth-protected-resource/mcp/p/none", "", all(200)},
		{http.MethodGet, "/.well-known/oauth-protected-resource/else", "", all(404)},
		{http.MethodGet, "/.well-known/oauth-authorization-server", "", all(404)},
		{http.MethodGet, "/router/.well-known/oauth-authorization-server", "", all(404)},
		{http.MethodGet, "/nothing", "", in(404)},
		{http.MethodPost, "/router", ping, in(404)},
		{http.MethodGet, "/router/nothing", "", in(404)},
		{http.MethodPost, "/router/router/mcp", ping, in(404)},
		{http.MethodGet, "/router/../mcp", "", in(404)},
	} {
		for i, client := range clients {
			response := w.do(tt.method, tt.path, tt.body, append(slices.Clone(bearer(client)), "Host", "tools.example.com")...)
			body, _ := io.ReadAll(response.Body)
			response.Body.Close()
			what := tt.method + " " + tt.path + " by " + client
			challenge := response.Header.Get("WWW-Authenticate")
			expect.Equal(t, response.StatusCode, tt.want[i], "%s: … %s", what, body)
			if has := strings.Contains(challenge, `resource_metadata="`+publicURL+`/.well-known/oauth-protected-resource/mcp`); has != (response.StatusCode == 401) && response.StatusCode != 403 {
				t.Errorf("%s: %d with the challenge %s", what, response.StatusCode, challenge)
			}
			if asks := strings.Contains(challenge, "insufficient_scope"); asks != (response.StatusCode == 403 && (client == "bob" || client == "rita")) {
				t.Errorf("%s: %d with the challenge %s", what, response.StatusCode, challenge)
			}
			if (client == "" || client == "bad") && strings.Contains(challenge+string(body), "work") && !strings.Contains(tt.path, "work") {
				t.Errorf("%s learns of a profile: %s %s", what, challenge, body)
			}
		}
	}
}
