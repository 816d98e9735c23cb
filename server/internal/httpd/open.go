package httpd

import (
	"net/http"
	"slices"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/server/internal/identity"
)

// openPerMinute is how often one address may read the documents that any web page may read.
const openPerMinute = 60

// open answers the requests that any client may send.
func (h *Handler) open(w http.ResponseWriter, r *http.Request) bool {
	q := requestOf(r)
	switch to := q.target.route; {
	case q.target.isOpen():
		h.anyPage(w, r)
	case to == routeHealth && isRead(r):
		writeJSON(w, r, http.StatusOK, h.backends.health(q.rules.clients.Public))
	case to == routeMCP && allowsPage(w, r) && isPreflight(r):
		preflight(w, "GET, POST, DELETE")
	default:
		return true
	}
	return false
}

// isOpen reports whether any web page may read the target, without credentials.
func (t target) isOpen() bool { return t.route == routeMetadata || t.route == routeDocument }

// anyPage answers with a document that any web page may read.
func (h *Handler) anyPage(w http.ResponseWriter, r *http.Request) {
	crossOrigin(w, "*")
	if wait := h.opened.Take(clientauth.Network(r.RemoteAddr), 1, 1); wait > 0 {
		deny(w, r, nil, identity.Busy(http.StatusTooManyRequests, wait, "busy: too many requests from this address"))
		return
	}
	var document []byte
	switch q := requestOf(r); {
	case isPreflight(r):
		preflight(w, "GET, HEAD")
		return
	case !isRead(r):
		notAllowed(w, r, "GET, HEAD", r.URL.Path+" takes GET")
		return
	case q.target.route == routeMetadata:
		document = q.rules.clients.Metadata(r.URL.Path)
	case h.logins != nil:
		document = h.logins.Document()
	}
	if document == nil {
		nothingThere(w, r)
		return
	}
	w.Header().Set("Cache-Control", "public, max-age=300")
	writeJSON(w, r, http.StatusOK, document)
}

// Web pages of allowed origins may call MCP, with a token that they hold themselves. No answer
// ever allows credentials that a browser adds by itself.

const (
	corsRequest = "Authorization, Content-Type, Last-Event-Id, Mcp-Method, Mcp-Name, Mcp-Protocol-Version, Mcp-Session-Id, *" // the last for Mcp-Param-NAME
	corsAnswer  = "Mcp-Session-Id, Mcp-Protocol-Version, Retry-After, WWW-Authenticate"
)

// allowsPage lets a web page read the answer, if its origin is one of the options'.
func allowsPage(w http.ResponseWriter, r *http.Request) bool {
	q := requestOf(r)
	origin := r.Header.Get("Origin")
	if origin == "" || !slices.Contains(q.rules.access.origins, strings.ToLower(origin)) {
		return false
	}
	w.Header().Add("Vary", "Origin")
	crossOrigin(w, origin)
	return true
}

// crossOrigin lets web pages of the origin read the answer.
func crossOrigin(w http.ResponseWriter, origin string) {
	w.Header().Set("Access-Control-Allow-Origin", origin)
	w.Header().Set("Access-Control-Expose-Headers", corsAnswer)
}

// isPreflight reports whether a browser asks which requests a page may send.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Origin") != "" && r.Header.Get("Access-Control-Request-Method") != ""
}

// preflight answers a browser that asks which requests a page may send.
func preflight(w http.ResponseWriter, methods string) {
	header := w.Header()
	header.Set("Access-Control-Allow-Methods", methods)
	header.Set("Access-Control-Allow-Headers", corsRequest)
	header.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
}
