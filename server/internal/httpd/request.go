package httpd

import (
	"context"
	"net/http"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/rate"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
)

// A request is what the handlers of the chain know of an HTTP request. It is a value of the
// request's context.
type request struct {
	rules   *rules   // in force when it came
	target  target   // what it asks for
	client  client   // who sends it
	quota   quota    // how much the client may send
	backend *Backend // the router as the client sees it; nil until the client is let in
}

// A target is what a request asks for.
type target struct {
	route   route
	profile string // that the path names, "" if it names none
	path    string // without the profile that it names
	method  string // in the style of REST, that the path names; "" if it names none
}

// A client is who sends a request.
type client struct {
	principal Principal
	grant     *grant                     // of the principal; nil until the client is let in
	session   *browserSession            // the browser's login; nil if the client has proved itself by a token
	proof     *Proof                     // of the issuer's access token by which the client is let in; nil for none
	proves    func(context.Context) bool // reports whether the client's token or certificate still proves the principal; nil if its grant says that
	wrong     error                      // why the client's access token does not let it in; nil if it has none
}

// A quota is how many requests a client may still make.
type quota struct {
	limiter *rate.Limiter // nil if it may make any number of requests
	payer   string        // the client, for the limiter
	paid    int           // requests that the limiter has let pass
}

// requestKey is the key of the request in contexts.
type requestKey struct{}

// requestOf returns what the chain knows of the request.
func requestOf(r *http.Request) *request { return r.Context().Value(requestKey{}).(*request) }

// with returns the HTTP request with q in its context.
func (q *request) with(r *http.Request) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), requestKey{}, q))
}

// PrincipalOf returns who sends the request to a page.
func PrincipalOf(ctx context.Context) Principal {
	if q, ok := ctx.Value(requestKey{}).(*request); ok {
		return q.client.principal
	}
	return Principal{}
}

// LoggedIn reports whether the request to a page comes from a browser that has logged in.
func LoggedIn(ctx context.Context) bool {
	q, ok := ctx.Value(requestKey{}).(*request)
	return ok && q.client.session != nil
}

// A lifetime begins and ends each request: it counts it for [Handler.Close], gives it what the
// other handlers know of it, and bounds how long net/http reads and writes.
type lifetime struct {
	work     *work
	settings *settings
	pages    *http.ServeMux // may be nil
	next     http.Handler
}

// ServeHTTP implements [http.Handler].
func (l *lifetime) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := &request{rules: l.settings.current()}
	r = unprefixed(r, q.rules, l.pages)
	q.target = targetOf(r.URL.Path, isPage(l.pages, r))
	if _, issued := q.rules.issuer(); q.target.route == routeMetadata && !issued {
		q.target.route = routeElse
	}
	r = q.with(r)
	p := newResponse(w, l.work)
	if !l.work.enter(p) {
		refuse(p, r, http.StatusServiceUnavailable, nil, conversation.ErrClosed)
		return
	}
	defer l.work.leave(p)
	p.control.SetWriteDeadline(time.Time{})
	p.expectBody(r)
	defer func() {
		p.releaseBody()
		p.control.SetWriteDeadline(time.Now().Add(patience)) // for what net/http itself still has to write
	}()
	l.next.ServeHTTP(p, r)
}

// targetOf returns what a path asks for. page says that it is that of a page.
func targetOf(path string, page bool) target {
	t := target{route: routeOf(path, page)}
	t.profile, t.path = splitProfile(path)
	t.method = restMethod(t.path)
	return t
}

// current returns the rules that are in force now.
func (q *request) current() *rules { return q.rules.settings.current() }

// revoked reports whether the client may not be served any more, by the options that are in
// force now.
func (q *request) revoked() bool {
	q.current()
	return q.client.grant != nil && q.client.grant.ctx.Err() != nil
}

// ended reports whether the client has left, or may not be served any more.
func (q *request) ended(r *http.Request) bool {
	return r.Context().Err() != nil || q.client.grant != nil && q.client.grant.ctx.Err() != nil
}

// hasBody reports whether the request has a body. Over HTTP/2, Body is never
// [http.NoBody].
func hasBody(r *http.Request) bool { return r.ContentLength != 0 }

// isRead reports whether the method of the request only reads.
func isRead(r *http.Request) bool {
	return r.Method == http.MethodGet || r.Method == http.MethodHead
}
