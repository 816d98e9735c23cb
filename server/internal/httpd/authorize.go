package httpd

import (
	"net/http"
	"strings"
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
	c := &q.client
	if !c.IsIn() {
		if isDiscovery(r.URL.Path) {
			nothingThere(w, r)
		} else {
			deny(w, r, nil, c.Unknown(r))
		}
		return
	}
	if forbidden := c.Forbidden(); forbidden != nil {
		deny(w, r, nil, forbidden)
		return
	}
	var found bool
	if q.backend, found = h.views.of(q.target.profile, c.Principal.Profile, c.Principal.Reads); !found {
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
