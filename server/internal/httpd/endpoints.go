package httpd

import (
	"bytes"
	"io"
	"net/http"
	"strings"

	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
)

// route is the end of the chain: each request goes to the handler of its path and method.
func (h *Handler) route(w http.ResponseWriter, r *http.Request) {
	target := requestOf(r).target
	switch {
	case target.method != "":
		h.plain.rest(w, r)
	case target.route == routeMesh && isRead(r):
		h.backends.meshScan(w, r)
	case target.route == routeMesh, target.route == routeHealth:
		notAllowed(w, r, http.MethodGet, r.URL.Path+" takes GET")
	case target.route == routePage:
		h.page(w, r)
	case strings.TrimRight(target.path, "/") != "/mcp":
		nothingThere(w, r)
	case r.Method == http.MethodPost && isPlain(r):
		h.plain.serve(w, r)
	case r.Method == http.MethodPost:
		h.streamable.post(w, r)
	case r.Method != http.MethodGet && r.Method != http.MethodDelete, r.Header.Get(headerSession) == "":
		notAllowed(w, r, http.MethodPost, "send the request with POST; GET and DELETE need the header Mcp-Session-Id")
	case hasBody(r):
		refuse(w, r, http.StatusBadRequest, nil, conversation.InvalidRequest(r.Method+" has no body"))
	case r.Method == http.MethodGet:
		h.streamable.get(w, r)
	default:
		h.streamable.delete(w, r)
	}
}

// isPlain reports whether a POST to /mcp is plain JSON-RPC: it names no stream of
// events, and has no header of MCP but perhaps a legacy revision and a sessionId of plain JSON-RPC.
func isPlain(r *http.Request) bool {
	_, streams := accepts(r, "text/event-stream")
	session := r.Header.Get(headerSession)
	version := r.Header.Get(headerVersion)
	return !streams && (version == "" || conversation.IsLegacy(version)) && (session == "" || strings.HasPrefix(session, plainSession))
}

// isPage reports whether one of the pages is asked for, which may be nil.
func isPage(pages *http.ServeMux, r *http.Request) bool {
	if pages == nil || strings.HasPrefix(r.URL.Path, "/mcp") {
		return false
	}
	_, pattern := pages.Handler(r)
	return pattern != ""
}

// page serves a page, at most until the handler is closed. The body is read before, since the time for that is bounded
// and the time for an answer is not.
func (h *Handler) page(w http.ResponseWriter, r *http.Request) {
	q := requestOf(r)
	if isBare(r) {
		http.Redirect(w, r, q.rules.clients.At("/"), http.StatusSeeOther)
		return
	}
	if hasBody(r) {
		body, ok := message(w, r)
		if !ok {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
	}
	ctx, stop := h.clients.During(r, &q.client, isRead(r))
	defer stop()
	ctx = clientauth.WithPrincipal(ctx, q.client.Principal, q.client.LoggedIn())
	h.pages.ServeHTTP(responseOf(w).ResponseWriter, r.WithContext(ctx))
}
