package server

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/classify"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

const (
	defaultMaxBody        = 16 << 20
	defaultSessionTimeout = 30 * time.Minute
	defaultMaxSessions    = 1000
	defaultReadTimeout    = time.Minute
)

// HTTPOptions say for whom a [Handler] is there. The zero value serves programs
// of this machine.
type HTTPOptions struct {
	Bound          string        // the address that is listened on, host:port
	AllowedHosts   []string      // by which we may be called, beside loopback and Bound; with or without port
	AllowedOrigins []string      // of web pages that may call us, such as https://example.com
	Tokens         []string      // one of which requests must bear; none: nobody is asked for one
	MaxBody        int64         // bytes of one message or batch; default 16 MiB
	MaxBatch       int           // messages of a batch, but no more than Burst; default 100
	ReadTimeout    time.Duration // for a client to send a message; default 1 minute
	Rate           float64       // requests a second that one client may make for long; 0 is any number
	Burst          int           // that it may make at once; default those of a second
	SessionTimeout time.Duration // after which an idle session ends; default 30 minutes
	MaxSessions    int           // default 1000

	// Pages are there for people and programs beside MCP, for whoever may come in; nil
	// if there are none. What it has no pattern for is not found.
	Pages *http.ServeMux
}

// A Handler serves MCP over HTTP: streamable HTTP of both eras and plain
// JSON-RPC at /mcp, each method at /mcp/<method> in the style of REST, and what
// there is to say of the router at /health and /v1/mesh_scan. It must be closed.
type Handler struct {
	server   *Server
	opts     HTTPOptions
	door     door
	throttle *throttle // nil if clients are not held back
	log      *zap.Logger
	ctx      context.Context // ends when all has to
	end      context.CancelCauseFunc

	running sync.WaitGroup // HTTP requests, and what goes on without theirs

	mu       sync.Mutex    // guards what follows, and what sessions say it does
	closing  bool          // no more requests
	closed   bool          // no more of anything
	calls    int           // requests that are being answered, but for subscriptions
	drained  chan struct{} // closed when calls becomes 0; nil if nobody waits
	sessions map[string]*httpSession
}

// Handler returns a handler, which serves while [Server.Run] runs.
func (s *Server) Handler(o HTTPOptions) *Handler {
	o.MaxBody = cmp.Or(o.MaxBody, defaultMaxBody)
	o.MaxBatch = cmp.Or(o.MaxBatch, defaultMaxBatch)
	o.ReadTimeout = cmp.Or(o.ReadTimeout, defaultReadTimeout)
	o.SessionTimeout = cmp.Or(o.SessionTimeout, defaultSessionTimeout)
	o.MaxSessions = cmp.Or(o.MaxSessions, defaultMaxSessions)
	h := &Handler{server: s, door: newDoor(o), throttle: newThrottle(o.Rate, o.Burst), log: s.log.Named("http"), sessions: make(map[string]*httpSession)}
	if h.throttle != nil { // a larger one could never be let in
		o.MaxBatch = min(o.MaxBatch, h.throttle.burst)
	}
	h.opts = o
	h.ctx, h.end = context.WithCancelCause(context.Background())
	return h
}

// Close takes no more requests, lets those in flight be answered until ctx ends,
// cancels the others and ends all sessions and streams. When it returns, nothing
// of them runs.
func (h *Handler) Close(ctx context.Context) {
	h.mu.Lock()
	h.closing = true
	drained := make(chan struct{})
	if h.drained = drained; h.calls == 0 {
		close(drained)
		h.drained = nil
	}
	h.mu.Unlock()
	select {
	case <-drained:
	case <-ctx.Done():
	}
	h.end(errClosed)
	h.mu.Lock()
	h.closed = true
	for _, s := range h.sessions {
		h.remove(s)
	}
	h.mu.Unlock()
	h.running.Wait()
	h.server.abandonParked(func(of *conversation) bool { return of.visitor })
}

// enter lets an HTTP request in.
func (h *Handler) enter() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return false
	}
	h.running.Add(1)
	return true
}

// ServeHTTP implements [http.Handler].
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	x := &exchange{h: h, w: w, r: r, control: http.NewResponseController(w), rest: restMethod(r.URL.Path)}
	if !h.enter() {
		x.refuse(http.StatusServiceUnavailable, nil, errClosed)
		return
	}
	defer h.running.Done()
	x.control.SetWriteDeadline(time.Time{})
	if x.hasBody() { // what is left of it is read even if we don't
		x.control.SetReadDeadline(time.Now().Add(h.opts.ReadTimeout))
	}
	defer context.AfterFunc(h.ctx, x.hurry)()
	// What the server itself still has to write has a deadline too.
	defer func() { x.control.SetWriteDeadline(time.Now().Add(patience)) }()
	if err := h.door.admit(r); err != nil {
		x.refuse(http.StatusForbidden, nil, err)
		return
	}
	if r.URL.Path == "/health" && x.reads() {
		x.json(http.StatusOK, h.health())
		return
	}
	var ok bool
	x.principal, ok = x.identify()
	x.payer = x.principal
	if !ok || x.principal == "" { // who guesses tokens is known by the address alone
		x.payer = network(r.RemoteAddr)
	}
	if !x.pay(1) {
		return
	}
	if x.login(ok) {
		return
	}
	if !ok {
		w.Header().Set("WWW-Authenticate", "Bearer")
		x.refuse(http.StatusUnauthorized, nil, errNoToken)
		return
	}
	x.route()
}

var errNoToken = invalidRequest("the request bears no valid token: send Authorization: Bearer TOKEN")

// hasBody reports whether the request has a body. Over HTTP/2, Body is never
// [http.NoBody].
func (x *exchange) hasBody() bool { return x.r.ContentLength != 0 }

// reads reports whether the method is one that only reads.
func (x *exchange) reads() bool { return x.r.Method == http.MethodGet || x.r.Method == http.MethodHead }

// route finds what is asked for.
func (x *exchange) route() {
	switch {
	case x.rest != "":
		x.restful()
	case x.r.URL.Path == "/v1/mesh_scan" && x.reads():
		x.meshScan()
	case x.r.URL.Path == "/v1/mesh_scan", x.r.URL.Path == "/health":
		x.notAllowed(http.MethodGet, x.r.URL.Path+" takes GET")
	case x.isPage():
		x.page()
	case strings.TrimRight(x.r.URL.Path, "/") != "/mcp":
		x.refuse(http.StatusNotFound, nil, invalidRequest("there is nothing at "+brief(x.r.URL.Path)+"; MCP is at /mcp"))
	case x.r.Method == http.MethodPost:
		x.post()
	case x.r.Method != http.MethodGet && x.r.Method != http.MethodDelete, x.r.Header.Get(headerSession) == "":
		x.notAllowed(http.MethodPost, "requests are sent with POST; GET and DELETE need a session")
	case x.hasBody():
		x.refuse(http.StatusBadRequest, nil, invalidRequest(x.r.Method+" has no body"))
	case x.r.Method == http.MethodGet:
		x.get()
	default:
		x.delete()
	}
}

// isPage reports whether a page is asked for.
func (x *exchange) isPage() bool {
	if x.h.opts.Pages == nil || strings.HasPrefix(x.r.URL.Path, "/mcp") {
		return false
	}
	_, pattern := x.h.opts.Pages.Handler(x.r)
	return pattern != ""
}

// page serves a page, for no longer than the handler is open. What was sent is read
// before, since the time for that is bounded, and the time for an answer is not.
func (x *exchange) page() {
	if x.hasBody() {
		body, ok := x.message()
		if !ok {
			return
		}
		x.r.Body = io.NopCloser(bytes.NewReader(body))
	}
	ctx, cancel := context.WithCancel(x.r.Context())
	defer cancel()
	defer context.AfterFunc(x.h.ctx, cancel)()
	x.h.opts.Pages.ServeHTTP(x.w, x.r.WithContext(ctx))
}

// statusOf returns "ok", or "degraded" while the outside classifier is down and the
// built-in one stands in for it.
func statusOf(classification classify.Health) string {
	if classification.Degraded() {
		return "degraded"
	}
	return "ok"
}

// health says how the router is, to whom nothing was asked of; to whom may be a
// stranger only the status.
func (h *Handler) health() []byte {
	classification := h.server.router.Classifier().Health()
	status := statusOf(classification)
	if len(h.opts.Tokens) > 0 {
		return []byte(`{"status":"` + status + `"}` + "\n")
	}
	snapshot := h.server.router.Snapshot()
	tools := len(snapshot.Tools())
	return append(wire.Marshal(struct {
		Status string `json:"status"`
		classify.Health
		IndexSize int `json:"index_size"` // all that can be found: tools, prompts, resources, templates
		Servers   int `json:"servers"`
		Tools     int `json:"tools"`
	}{
		status, classification, tools + len(snapshot.Prompts()) + len(snapshot.Resources()) + len(snapshot.Templates()),
		len(h.server.router.Servers()), tools,
	}), '\n')
}

// admit takes a request in, unless the handler is closing. What it returns must
// be called when the request was answered.
func (h *Handler) admit(method string) (done func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closing {
		return nil, errClosed
	}
	if method == "subscriptions/listen" { // ends only if it is made to
		return func() {}, nil
	}
	h.calls++
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.calls--
		if h.calls == 0 && h.drained != nil {
			close(h.drained)
			h.drained = nil
		}
	}, nil
}

// carryOut answers the request on the stream, in a goroutine unless that is a
// moment's work. done is called then.
func (h *Handler) carryOut(r *request, s *stream, done func()) {
	s.cut = func() {
		h.log.Warn("the client does not read; its request is cancelled", zap.String("method", r.method))
		r.end(errUnread)
	}
	answer := func() {
		defer done()
		line := r.run()
		if line == nil && h.ctx.Err() != nil {
			line = refusal(r.id, errClosed)
		}
		s.finish(line)
	}
	if methods[r.method].quick {
		answer()
		return
	}
	h.running.Go(answer)
}

var errUnread = errors.New("the client does not read what it is sent")
