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
	"github.com/mcp-metarouter/metarouter/internal/rate"
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

	authenticator Authenticator // may be nil
	openLimit     *rate.Limiter // of each address, for what needs no token
	refusals      *rate.Limiter // of each address, for tokens that the authenticator refuses
	good          recentTokens  // that it has let in
	audited       audited
}

// New returns a handler of the router.
func New(b *Backends, o Options) *Handler {
	standard, _ := b.Of()
	h := &Handler{
		backends: b, standard: standard, live: o.Live, work: newWork(), pages: o.Pages, logins: o.Logins,
		authenticator: o.Authenticator, openLimit: newOpenLimiter(), refusals: rate.New(refusedPerMinute/60.0, refusedPerMinute),
		good: newRecentTokens(),
	}
	if h.live == nil {
		h.live = func() (*Options, <-chan struct{}) { return &o, nil }
	}
	h.audited.record, h.audited.work = o.Audit, h.work
	log := b.Log.Named("http")
	h.login = newLogin(o, b.Secret, h.work, log)
	h.sessions = &sessions{work: h.work, log: log, byID: make(map[string]*httpSession), rules: h.current}
	h.streamable = &streamable{sessions: h.sessions, work: h.work, log: log, lazily: waits{time: lazily}, longer: waits{time: longer}}
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
	x := h.newExchange(w, r)
	if !h.work.enter(x) {
		x.refuse(http.StatusServiceUnavailable, nil, conversation.ErrClosed)
		return
	}
	defer h.work.leave(x)
	x.control.SetWriteDeadline(time.Time{})
	x.begin(x.began)
	defer func() {
		x.end(nil)
		x.lease.release()
		x.control.SetWriteDeadline(time.Now().Add(patience)) // for what net/http itself still has to write
	}()
	if h.serveAnyone(x) {
		return
	}
	browser := h.pages != nil && (x.to == routePage || x.to == routeLogin || x.to == routeCallback)
	in := h.identify(x, browser)
	if x.payer == "" && x.limiter != nil { // a client that guesses tokens is known by its address alone
		x.payer = network(r.RemoteAddr)
	}
	if x.pay(1) && !h.serveBrowser(x, browser, in) && h.mayEnter(x, in) {
		h.route(x)
	}
}

// newExchange returns the exchange of a request.
func (h *Handler) newExchange(w http.ResponseWriter, r *http.Request) *exchange {
	rules := h.current()
	r = h.unprefixed(r, rules)
	profile, path := splitProfile(r.URL.Path)
	x := &exchange{
		w: w, r: r, control: http.NewResponseController(w), profile: profile, path: path, rest: restMethod(path),
		to: routeOf(r.URL.Path, h.isPage(r)), rules: rules, current: h.current, ending: h.work.ctx, memory: &h.memory, audited: &h.audited, began: time.Now(),
	}
	if _, issued := rules.issuer(); x.to == routeMetadata && !issued {
		x.to = routeElse
	}
	return x
}

// serveAnyone answers what any client may ask, and refuses hosts and web pages that may ask
// nothing. It reports false if the request is to be served otherwise.
func (h *Handler) serveAnyone(x *exchange) bool {
	open := x.to == routeMetadata || x.to == routeDocument
	if err := x.rules.access.admit(x.r, open); err != nil {
		x.refuse(http.StatusForbidden, nil, err)
		return true
	}
	switch {
	case open:
		h.open(x)
	case x.to == routeHealth && x.isRead():
		x.json(http.StatusOK, h.info.health(x.rules.public()))
	case x.to == routeMCP && x.allowsPage() && isPreflight(x.r):
		x.preflight("GET, POST, DELETE")
	default:
		return false
	}
	return true
}

// serveBrowser answers what only browsers ask: logins, here and at remote servers. in says
// whether the client has proved who it is. It reports false if the request is to be served
// otherwise.
func (h *Handler) serveBrowser(x *exchange, browser, in bool) bool {
	switch {
	case !in && x.wrong != nil && !isRefused(x.wrong): // a login would not help
		x.refuseUnknown()
	case x.to == routeCallback:
		h.callback(x, in)
	default:
		return browser && h.login.serve(x, in)
	}
	return true
}

// mayEnter reports whether the client may use the route, and finds the router as the client
// sees it. If not, it has answered.
func (h *Handler) mayEnter(x *exchange, in bool) bool {
	switch {
	case !in && isDiscovery(x.r.URL.Path):
		x.nothingThere()
		return false
	case !in:
		x.refuseUnknown()
		return false
	case !x.mayUse(x.to):
		return false
	}
	var found bool
	if x.backend, found = h.backendFor(x.profile, x.principal.Profile, x.principal.Reads); !found {
		x.rest = ""
		x.nothingThere()
		return false
	}
	if x.principal.Reads {
		x.whole, _ = h.backendFor(x.profile, x.principal.Profile, false)
	}
	return true
}

var errNoToken = conversation.InvalidRequest("the request has no valid token: send Authorization: Bearer TOKEN")

var errForeignLogout = conversation.InvalidRequest("only the router's own dashboard may log out, with the Content-Type application/json")

// route serves the request by its path and method.
func (h *Handler) route(x *exchange) {
	switch {
	case x.rest != "":
		h.plain.rest(x)
	case x.r.URL.Path == "/v1/mesh_scan" && x.isRead():
		h.info.meshScan(x)
	case x.r.URL.Path == "/v1/mesh_scan", x.r.URL.Path == "/health":
		x.notAllowed(http.MethodGet, x.r.URL.Path+" takes GET")
	case x.to == routePage:
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
	if x.isBare() {
		http.Redirect(x.w, x.r, x.at("/"), http.StatusSeeOther)
		return
	}
	if x.hasBody() {
		body, ok := x.message()
		if !ok {
			return
		}
		x.r.Body = io.NopCloser(bytes.NewReader(body))
	}
	ctx, cancel := context.WithCancel(context.WithValue(x.context(), visitor{}, x.principal))
	defer cancel()
	defer context.AfterFunc(h.work.ctx, cancel)()
	if x.isRead() {
		defer x.lasting()()
	}
	if x.stay != nil {
		h.login.renew(x)
		during, leave := h.login.during(context.WithValue(ctx, loggedIn{}, true), *x.stay)
		defer leave()
		ctx = during
	}
	h.pages.ServeHTTP(x.w, x.r.WithContext(ctx))
}
