package httpd

import (
	"net/http"
	"slices"
	"strings"
)

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

// isPreflight reports whether a browser asks what a page may send.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Origin") != "" && r.Header.Get("Access-Control-Request-Method") != ""
}

// preflight answers a browser that asks what a page may send.
func preflight(w http.ResponseWriter, methods string) {
	header := w.Header()
	header.Set("Access-Control-Allow-Methods", methods)
	header.Set("Access-Control-Allow-Headers", corsRequest)
	header.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
}
