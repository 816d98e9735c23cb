package httpd

import (
	"net/http"
	"strings"

	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
)

// An authorizer lets clients use the routes that they may use, and finds the router as each client
// sees it.
type authorizer struct {
	views *views
	next  http.Handler
}

// ServeHTTP implements [http.Handler].
func (h *authorizer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := requestOf(r)
	who := q.client.principal
	switch {
	case !q.client.isIn() && isDiscovery(r.URL.Path):
		nothingThere(w, r)
		return
	case !q.client.isIn():
		refuseUnknown(w, r)
		return
	case !mayUse(w, r):
		return
	}
	var found bool
	if q.backend, found = h.views.of(q.target.profile, who.Profile, who.Reads); !found {
		q.target.method = ""
		nothingThere(w, r)
		return
	}
	h.next.ServeHTTP(w, r)
}

// isDiscovery reports whether a client without a token looks for an OAuth server at the path:
// there is none, which it learns from 404 but not from 401.
func isDiscovery(path string) bool {
	return strings.HasPrefix(path, "/.well-known/")
}

// mayUse reports whether the principal, who is let in, may use the route. If not, it has
// answered.
func mayUse(w http.ResponseWriter, r *http.Request) bool {
	q := requestOf(r)
	switch judged[q.target.route] {
	case needsNothing, needsToken:
		return true
	case needsAdmin:
		if q.client.principal.Admin {
			return true
		}
	}
	if q.client.proof != nil {
		refuseNoAdmin(w, r)
		return false
	}
	refuse(w, r, http.StatusForbidden, nil, conversation.InvalidRequest(`the token `+conversation.Brief(q.client.principal.Name)+` has the role "use", which may use tools at /mcp and not this page; send a token of the role "admin"`))
	return false
}
