package httpd

import (
	"net/http"

	"github.com/mcp-metarouter/metarouter/server/internal/identity"
)

// An auditor records the requests that may not be made.
type auditor struct {
	clients *identity.Identifier
	next    http.Handler
}

// ServeHTTP implements [http.Handler].
func (a *auditor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.next.ServeHTTP(w, r)
	if p := responseOf(w); p.refused {
		a.clients.Refused(r, &requestOf(r).client, p.why)
	}
}
