package httpd

import (
	"net/http"

	"github.com/mcp-metarouter/metarouter/server/internal/identity"
)

// An identifier finds out who sends each request.
type identifier struct {
	clients *identity.Identifier
	next    http.Handler
}

// ServeHTTP implements [http.Handler]. Who has proved nothing is passed on, too.
func (h *identifier) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := requestOf(r)
	if h.clients.Identify(r, &q.client) {
		responseOf(w).expectBody(r) // the body has as much time as without
	}
	q.quota.limiter = q.rules.limiter
	if q.client.IsIn() {
		q.quota.payer = q.client.Principal.Hash
		if own := q.rules.limiters[q.quota.payer]; own != nil {
			q.quota.limiter = own
		}
	}
	h.next.ServeHTTP(w, r)
}
