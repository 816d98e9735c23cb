package httpd

import (
	"net/http"

	"github.com/mcp-metarouter/metarouter/server/internal/identity"
)

// browsers answer what only browsers ask: logins, here and at remote servers.
type browsers struct {
	clients   *identity.Identifier
	callbacks bool // there are logins at remote servers
	next      http.Handler
}

// ServeHTTP implements [http.Handler].
func (h *browsers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := requestOf(r)
	if q.target.route == routeCallback && !h.callbacks {
		nothingThere(w, r)
		return
	}
	html := false
	if q.client.Browser {
		_, html = accepts(r, "text/html")
	}
	if q.target.route == routeLogin {
		r.Body = http.MaxBytesReader(responseOf(w).ResponseWriter, r.Body, identity.MaxForm)
	}
	if served, denied := h.clients.Browse(w, r, &q.client, html); denied != nil {
		deny(w, r, nil, denied)
	} else if !served {
		h.next.ServeHTTP(w, r)
	}
}
