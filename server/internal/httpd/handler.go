package httpd

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/server/internal/catalog"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
)

const (
	defaultMaxBody        = 16 << 20
	defaultSessionTimeout = 30 * time.Minute
	defaultMaxSessions    = 1000
	defaultReadTimeout    = time.Minute
	defaultMaxBodyMemory  = 256 << 20
)

// Options say whom a [Handler] serves. The zero value serves programs of this
// machine.
type Options struct {
	Bound          string          // the address that is listened on, host:port
	AllowedHosts   []string        // names by which clients may call the router, besides loopback and Bound; with or without port
	AllowedOrigins []string        // web pages that may call the router, such as https://example.com
	Tokens         []Principal     // requests must have the token of one of them; if empty, requests need no token
	MaxBody        int64           // bytes of one message or batch; default 16 MiB
	MaxBodyMemory  int64           // bytes that the bodies of all requests and long answers may take together, besides 8 KiB of each; default 256 MiB
	MaxBatch       int             // messages of a batch, and at most the client's burst; default 100
	ReadTimeout    time.Duration   // for a client to send a message; default 1 minute
	Rate           float64         // requests a second that one client may make for long; 0 is any number
	Burst          int             // requests that one client may make at once; default those of a second
	Rates          map[string]Rate // of principals, by Hash, instead of Rate and Burst
	SessionTimeout time.Duration   // after which an idle session ends; default 30 minutes
	MaxSessions    int             // default 1000

	// Live returns the options that are in force now, and a channel that is closed when others
	// are. It is called for each request; an Options that was returned must not be modified.
	// Bound, Live, Pages, Logins, Authenticator and Audit never change. nil: no option ever changes.
	Live func() (*Options, <-chan struct{})

	// Pages are served to people and programs, behind the same checks as MCP; may
	// be nil. A path without a pattern is not found.
	Pages *http.ServeMux

	// Logins take logins at remote servers that come back at /oauth/callback; nil for none.
	Logins Logins

	PublicURL string   // by which clients reach the router, without a slash at the end; "" if it is not known
	Issuers   []Issuer // whose access tokens let clients in; needs PublicURL and Authenticator

	// Authenticator verifies what Issuers issue, and certificates; nil for none. It never changes.
	Authenticator Authenticator

	// Audit is told what principals do besides calls; nil for none. It never changes.
	Audit audit.Recorder
}

// A Rate limits requests.
type Rate struct {
	PerSecond float64 // for long; 0 is any number
	Burst     int     // at once; 0 is those of a second
}

// Backends are the router that a [Handler] serves, as clients of profiles see it. All fields
// but Limited are required.
type Backends struct {
	// Of returns the router as clients see it that have chosen all of the profiles. It
	// reports false if one of the profiles does not exist.
	Of func(chosen ...string) (*Backend, bool)

	All     func() []*Backend // returns those that were made
	Limited bool              // all clients have profiles besides those that they choose

	// ReadOnly may be chosen like a profile, and allows only what just reads.
	ReadOnly string

	Whole   Router // the router without a profile
	Secret  []byte // signs the cookies of browsers
	Node    string // this machine, as in node_id
	Version string
	Started time.Time
	Log     *zap.Logger
}

// A Backend is a router as clients see it that have chosen the same profiles. All fields are
// required.
type Backend struct {
	Router  Router
	Clients *conversation.Clients
	Catalog *catalog.Catalog
	Mode    func() string
	Retired context.Context // ends when one of the profiles exists no more
}

// A Handler serves MCP over HTTP: streamable HTTP of both eras and plain JSON-RPC at
// /mcp, each method at /mcp/<method> in the style of REST, the same for the profile NAME at
// /mcp/p/NAME, the state of the router at /health and /v1/mesh_scan, and what logins at remote
// servers need below /oauth/. It must be closed.
type Handler struct {
	backends   *Backends
	standard   *Backend // of clients that have chosen no profile
	live       func() (*Options, <-chan struct{})
	rules      atomic.Pointer[rules]
	renewing   sync.Mutex // one goroutine at a time replaces rules
	login      *login
	memory     bodyMemory
	work       *work
	sessions   *sessions
	streamable *streamable
	plain      *plain
	info       *info
	pages      *http.ServeMux // may be nil
	logins     Logins         // may be nil
}

// New returns a handler of the router.
func New(b *Backends, o Options) *Handler {
	standard, _ := b.Of()
	h := &Handler{backends: b, standard: standard, live: o.Live, work: newWork(), pages: o.Pages, logins: o.Logins}
	if h.live == nil {
		h.live = func() (*Options, <-chan struct{}) { return &o, nil }
	}
	log := b.Log.Named("http")
	h.login = newLogin(o.Bound, b.Secret)
	h.sessions = &sessions{work: h.work, log: log, byID: make(map[string]*httpSession), rules: h.current}
	h.streamable = &streamable{sessions: h.sessions, work: h.work, log: log}
	h.plain = &plain{work: h.work}
	h.info = &info{b}
	if o.Live != nil {
		h.work.running.Go(h.watch)
	}
	return h
}

// Close takes no more requests, lets those in flight be answered until ctx ends,
// cancels the others and ends all sessions and streams. When it returns, nothing of
// them runs.
func (h *Handler) Close(ctx context.Context) {
	h.sessions.refuse()
	h.work.drain(ctx)
	h.work.stop()
	h.sessions.removeAll()
	h.work.running.Wait()
	for _, b := range h.backends.All() {
		b.Clients.AbandonVisitors()
	}
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	profile, path := splitProfile(r.URL.Path)
	x := &exchange{
		w: w, r: r, control: http.NewResponseController(w), path: path, rest: restMethod(path),
		rules: h.current(), current: h.current, ending: h.work.ctx, memory: &h.memory, began: time.Now(),
	}
	if !h.work.enter() {
		x.refuse(http.StatusServiceUnavailable, nil, conversation.ErrClosed)
		return
	}
	defer h.work.running.Done()
	x.control.SetWriteDeadline(time.Time{})
	if x.hasBody() { // net/http reads the rest of the body even if the handler does not
		x.control.SetReadDeadline(x.began.Add(x.rules.timeFor(smallBody)))
	}
	defer context.AfterFunc(h.work.ctx, x.hurry)()
	defer func() {
		x.lease.release()
		x.control.SetWriteDeadline(time.Now().Add(patience)) // for what net/http itself still has to write
	}()
	if err := x.rules.access.admit(r); err != nil {
		x.refuse(http.StatusForbidden, nil, err)
		return
	}
	page := h.isPage(r)
	to := routeOf(x, page)
	if to == routeHealth && x.isRead() {
		x.json(http.StatusOK, h.info.health(x.rules.public()))
		return
	}
	browser := h.pages != nil && (to == routePage || to == routeLogin || to == routeCallback)
	who, ok := x.rules.access.identify(r)
	granted := x.rules.grants[who]
	if !ok && browser {
		in, err := h.login.identify(x.rules, r)
		if err != nil { // the browser's issuer can't be asked
			w.Header().Set("Retry-After", "5")
			x.refuse(http.StatusServiceUnavailable, nil, err)
			return
		}
		if in != nil {
			who, granted, x.stay, ok = in.grant.Principal, in.grant, in, true
		}
	}
	x.principal, x.payer = who, who.Hash
	if !ok || who.Hash == "" { // a client that guesses tokens is known by its address alone
		x.payer = network(r.RemoteAddr)
	}
	x.limiter = x.rules.limiter
	if ok {
		defer x.hold(granted)()
		x.limiter = x.rules.limiterOf(who)
	}
	if !x.pay(1) {
		return
	}
	switch {
	case to == routeCallback:
		h.callback(x, ok)
		return
	case to == routeDocument:
		h.document(x)
		return
	case browser && h.login.serve(x, ok):
		return
	}
	if !ok && isDiscovery(r.URL.Path) {
		x.nothingThere()
		return
	}
	if !ok {
		w.Header().Set("WWW-Authenticate", "Bearer")
		x.refuse(http.StatusUnauthorized, nil, errNoToken)
		return
	}
	if !x.mayUse(to) {
		return
	}
	var found bool
	if x.backend, found = h.backendFor(profile, x.principal.Profile); !found {
		x.rest = ""
		x.nothingThere()
		return
	}
	h.route(x, page)
}

var errNoToken = conversation.InvalidRequest("the request has no valid token: send Authorization: Bearer TOKEN")

var errForeignLogout = conversation.InvalidRequest("only the router's own dashboard may log out, with the Content-Type application/json")

// route serves the request by its path and method.
func (h *Handler) route(x *exchange, page bool) {
	switch {
	case x.rest != "":
		h.plain.rest(x)
	case x.r.URL.Path == "/v1/mesh_scan" && x.isRead():
		h.info.meshScan(x)
	case x.r.URL.Path == "/v1/mesh_scan", x.r.URL.Path == "/health":
		x.notAllowed(http.MethodGet, x.r.URL.Path+" takes GET")
	case page:
		h.page(x)
	case strings.TrimRight(x.path, "/") != "/mcp":
		x.nothingThere()
	case x.r.Method == http.MethodPost && isPlain(x.r):
		h.plain.serve(x)
	case x.r.Method == http.MethodPost:
		h.streamable.post(x)
	case x.r.Method != http.MethodGet && x.r.Method != http.MethodDelete, x.r.Header.Get(headerSession) == "":
		x.notAllowed(http.MethodPost, "send the request with POST; GET and DELETE need the header Mcp-Session-Id")
	case x.hasBody():
		x.refuse(http.StatusBadRequest, nil, conversation.InvalidRequest(x.r.Method+" has no body"))
	case x.r.Method == http.MethodGet:
		h.streamable.get(x)
	default:
		h.streamable.delete(x)
	}
}

// isDiscovery reports whether a client without a token looks for an OAuth server at the path:
// there is none, which it learns from 404 but not from 401.
func isDiscovery(path string) bool {
	return strings.HasPrefix(path, "/.well-known/")
}

// nothingThere refuses a request for a path that is not served.
func (x *exchange) nothingThere() {
	x.refuse(http.StatusNotFound, nil, conversation.InvalidRequest("there is nothing at "+conversation.Brief(x.r.URL.Path)+"; MCP is at /mcp, the dashboard at /"))
}

// isPlain reports whether a POST to /mcp is plain JSON-RPC: it names no stream of
// events and has none of MCP's headers, but perhaps a sessionId of plain JSON-RPC.
func isPlain(r *http.Request) bool {
	_, streams := accepts(r, "text/event-stream")
	session := r.Header.Get(headerSession)
	return !streams && r.Header.Get(headerVersion) == "" && (session == "" || strings.HasPrefix(session, plainSession))
}

// isPage reports whether a page is asked for.
func (h *Handler) isPage(r *http.Request) bool {
	if h.pages == nil || strings.HasPrefix(r.URL.Path, "/mcp") {
		return false
	}
	_, pattern := h.pages.Handler(r)
	return pattern != ""
}

// page serves a page, at most until the handler is closed. The body is read before,
// since the time for that is bounded and the time for an answer is not.
func (h *Handler) page(x *exchange) {
	if x.hasBody() {
		body, ok := x.message()
		if !ok {
			return
		}
		x.r.Body = io.NopCloser(bytes.NewReader(body))
	}
	ctx, cancel := context.WithCancel(context.WithValue(x.r.Context(), visitor{}, x.principal))
	defer cancel()
	defer context.AfterFunc(h.work.ctx, cancel)()
	if x.stay != nil {
		h.login.renew(x)
		during, leave := h.login.during(context.WithValue(ctx, loggedIn{}, true), *x.stay)
		defer leave()
		ctx = during
	}
	h.pages.ServeHTTP(x.w, x.r.WithContext(ctx))
}
