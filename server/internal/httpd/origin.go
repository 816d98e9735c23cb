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
func (x *exchange) allowsPage() bool {
	origin := x.r.Header.Get("Origin")
	if origin == "" || !slices.Contains(x.rules.access.origins, strings.ToLower(origin)) {
		return false
	}
	x.w.Header().Add("Vary", "Origin")
	crossOrigin(x, origin)
	return true
}

// crossOrigin lets web pages of the origin read the answer.
func crossOrigin(x *exchange, origin string) {
	x.w.Header().Set("Access-Control-Allow-Origin", origin)
	x.w.Header().Set("Access-Control-Expose-Headers", corsAnswer)
}

// isPreflight reports whether a browser asks what a page may send.
func isPreflight(r *http.Request) bool {
	return r.Method == http.MethodOptions && r.Header.Get("Origin") != "" && r.Header.Get("Access-Control-Request-Method") != ""
}

// preflight answers a browser that asks what a page may send.
func (x *exchange) preflight(methods string) {
	header := x.w.Header()
	header.Set("Access-Control-Allow-Methods", methods)
	header.Set("Access-Control-Allow-Headers", corsRequest)
	header.Set("Access-Control-Max-Age", "600")
	x.w.WriteHeader(http.StatusNoContent)
}
