package httpd

import (
	"context"
	"net/http"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/rate"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
	"github.com/mcp-metarouter/metarouter/server/internal/identity"
)

// A request has the state of an HTTP request that the steps of the chain share. It is a value of the
// request's context.
type request struct {
	rules   *rules          // in force when it came
	target  target          // the route, profile and method that it asks for
	client  identity.Sender // who sends it
	quota   quota           // how much the client may send
	backend *Backend        // the router as the client sees it; nil until the client is let in
}

// A target says which method or page a request asks for.
type target struct {
	route   route
	profile string // that the path names; may be ""
	server  string // that the path names, which is shown as itself; may be ""
	path    string // without the profile or server that it names
	method  string // in the style of REST, that the path names; may be ""
}

// A quota is how many requests a client may still make.
type quota struct {
	limiter *rate.Limiter // nil if it may make any number of requests
	payer   string        // the client, for the limiter
	paid    int           // requests that the limiter has let pass
}

// requestKey is the key of the request in contexts.
type requestKey struct{}

// requestOf returns the state of the request in the chain.
func requestOf(r *http.Request) *request { return r.Context().Value(requestKey{}).(*request) }

// ServeHTTP implements [http.Handler]. It begins and ends each request: it counts it for [Handler.Close], gives it the
// state that the steps of the chain know of it, and bounds how long net/http reads and writes.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p := newResponse(w, h.work)
	q := &request{rules: h.settings.current()}
	r = unprefixed(r, q.rules.clients, h.pages)
	q.target.route = routeOf(r.URL.Path, isPage(h.pages, r))
	q.target.profile, q.target.path = split(r.URL.Path, identity.ProfilePrefix)
	q.target.server, q.target.path = split(q.target.path, serverPrefix)
	q.target.method = restMethod(q.target.path)
	if q.target.route == routeMetadata && !q.rules.clients.HasIssuers() {
		q.target.route = routeElse
	}
	q.client = identity.Sender{
		Rules: q.rules.clients, Resource: identity.ResourceOf(q.target.profile),
		Admin: q.target.route.isForAdmins(), Browser: q.target.isForBrowsers(),
	}
	r = r.WithContext(context.WithValue(r.Context(), requestKey{}, q))
	if !h.work.enter(p) {
		refuse(p, r, http.StatusServiceUnavailable, nil, conversation.ErrClosed)
		return
	}
	defer h.work.leave(p)
	p.expectBody(r)
	defer func() {
		p.releaseBody()
		p.control.SetWriteDeadline(time.Now().Add(patience)) // for the bytes that net/http itself still has to write
	}()
	h.pass(p, r)
}

// revoked reports whether the client may not be served any more, by the options that are in
// force now.
func (q *request) revoked() bool {
	q.rules.settings.current()
	return q.client.IsRevoked()
}

// ended reports whether the client has left, or may not be served any more.
func (q *request) ended(r *http.Request) bool {
	return r.Context().Err() != nil || q.client.IsRevoked()
}

// hasBody reports whether the request has a body. Over HTTP/2, Body is never
// [http.NoBody].
func hasBody(r *http.Request) bool { return r.ContentLength != 0 }

// isRead reports whether the method of the request only reads.
func isRead(r *http.Request) bool {
	return r.Method == http.MethodGet || r.Method == http.MethodHead
}
