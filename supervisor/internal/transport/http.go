package transport

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/peer"
)

const (
	// endTimeout bounds the request that ends a session.
	endTimeout = 5 * time.Second
	// laterTimeout bounds the sending of a message that no caller waits for.
	laterTimeout = 30 * time.Second
	// openTimeout is how long the first request waits for the server's own stream to
	// open: messages that the server sends there before that are lost.
	openTimeout = time.Second
	// MaxUnreached is how many requests in a row may fail to reach the server before
	// the session counts as ended.
	MaxUnreached = 3
)

// Errors of the modern era (2026-07-28, transports/streamable-http).
const (
	codeHeaderMismatch    = -32020
	codeMissingCapability = -32021
)

// errForgotten says that the server does not know the session any more, and so has
// not looked at the request.
var errForgotten = errors.New("the server has forgotten the session")

// Streamable is the link over streamable HTTP, of both eras: each message is a
// POST of its own.
type Streamable struct {
	poster
	mirrors mirrors

	unreached atomic.Int32 // requests in a row that did not reach the server

	mu       sync.Mutex // guards the fields below
	id       string     // of the session; may be ""
	revision string     // agreed on; "" before the handshake has ended
}

// NewStreamable returns a link to the server at the site.
func NewStreamable(c *peer.Conn, s *Site, log *zap.Logger) *Streamable {
	ctx, abort := context.WithCancel(context.Background())
	return &Streamable{poster: poster{c, s, log, make(chan struct{}, maxLater), ctx, abort}}
}

// Send implements [peer.Link].
func (l *Streamable) Send(ctx context.Context, o *peer.Outgoing) error {
	revision := l.agreed(o)
	switch {
	case o.Method == peer.Initialized:
		if err := l.initialized(ctx, func(ctx context.Context) error { return l.try(ctx, o, revision, true) }); err != nil {
			return err
		}
		listening := make(chan struct{})
		if l.conn.Go(func() { l.listen(sync.OnceFunc(func() { close(listening) })) }) {
			signal.Within(listening, openTimeout)
		}
		return nil
	case o.ID == 0 && o.Method != "" && revision >= session.Modern:
		return nil // servers of the modern era get no notifications
	case o.ID == 0:
		return l.postLater(ctx, func(ctx context.Context) {
			defer o.End()
			l.exchange(ctx, o, revision)
		})
	}
	var call context.Context
	call, o.Abort = context.WithCancel(l.ctx)
	o.AbortCancels = revision >= session.Modern // "closing the SSE response stream is itself the cancellation signal"
	return l.run(o.Abort, func() { l.exchange(call, o, revision) })
}

// agreed returns the protocol revision in which a message is sent. The handshake, or its
// end, comes before each message that is a request or the end of the handshake itself, so Info may be read then.
func (l *Streamable) agreed(o *peer.Outgoing) string {
	switch o.Method {
	case peer.Discover:
		return session.Modern
	case peer.Initialize:
		return ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if o.ID != 0 || o.Method == peer.Initialized {
		l.revision = l.conn.Info().ProtocolVersion
	}
	return l.revision
}

// End asks the server to end the session, and aborts all requests under way. The
// session must have ended.
func (l *Streamable) End() {
	defer l.abort()
	l.mu.Lock()
	id := l.id
	l.mu.Unlock()
	if id == "" || errors.Is(l.conn.Cause(), errForgotten) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	if resp, err := l.site.do(ctx, func() (*http.Request, error) { return l.request(ctx, http.MethodDelete, "*/*", nil) }); err == nil {
		discardBody(resp)
	}
}

// exchange sends a message and gives the Conn its answer, or the reason why it gets
// no answer. "If the server rejects a request with a HeaderMismatch error
// … the client SHOULD call tools/list …, then retry."
func (l *Streamable) exchange(ctx context.Context, o *peer.Outgoing, revision string) {
	err := l.try(ctx, o, revision, o.Method != "tools/call")
	if errors.Is(err, errMismatch) {
		relist(ctx, l.conn)
		err = l.try(ctx, o, revision, true)
	}
	if err == nil {
		return
	}
	l.mu.Lock()
	opening := l.revision == "" // and the handshake fails by itself
	l.mu.Unlock()
	var cause error
	if !opening {
		cause = sessionEnd(err, l.unreached.Load())
	}
	r := peer.Reply{Err: err}
	status, _ := errors.AsType[*StatusError](err)
	if o.Method == peer.Discover && !errors.Is(err, session.ErrNotSent) && !isBusy(status) && !errors.Is(err, wire.ErrTooLong) {
		// "Not a recognised modern JSON-RPC error": to the handshake, a legacy server.
		refusal := &session.Error{Code: session.CodeMethodNotFound, Message: err.Error()}
		r = peer.Reply{Message: wire.Message{Error: wire.Marshal(refusal)}}
	}
	l.fail(ctx, o, r, cause)
}

// sessionEnd returns why the session is over after err, nil if it can go on.
// unreached counts the requests in a row that did not reach the server.
func sessionEnd(err error, unreached int32) error {
	if e, ok := errors.AsType[*NeedsAuthError](err); ok && e.forAll() {
		return e
	}
	switch {
	case errors.Is(err, errForgotten):
		return errForgotten
	case unreached >= MaxUnreached:
		return fmt.Errorf("%d requests in a row did not reach it: %w", MaxUnreached, err)
	}
	return nil
}

// try sends a message once and receives the answer. last says that it will
// not be tried again, whatever the answer.
func (l *Streamable) try(ctx context.Context, o *peer.Outgoing, revision string, last bool) error {
	var inSession bool
	resp, err := l.site.patient(ctx, o.Repeatable, func() (*http.Request, error) {
		r, err := l.request(ctx, http.MethodPost, "application/json, "+eventStream, o.Line)
		if err == nil {
			l.mirrors.address(r.Header, o, revision)
			inSession = r.Header.Get("Mcp-Session-Id") != ""
		}
		return r, err
	})
	if err != nil {
		if ctx.Err() == nil && (errors.Is(err, session.ErrNotSent) || errors.Is(err, session.ErrClosed)) {
			l.unreached.Add(1)
		}
		return asUnsent(err)
	}
	l.unreached.Store(0)
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return l.refused(resp, o, inSession, last)
	}
	if id := resp.Header.Get("Mcp-Session-Id"); id != "" && o.Method == peer.Initialize {
		l.mu.Lock()
		l.id = id
		l.mu.Unlock()
	}
	switch {
	case o.ID == 0:
		discardBody(resp)
		return nil
	case isEventStream(resp):
		return l.follow(ctx, resp, o, revision)
	}
	body, err := readBody(resp)
	if err == nil && !l.accept(body, o, revision) {
		return l.site.statusError(resp, body)
	}
	return err
}

// asUnsent marks a refusal for lack of a token: the server has not looked at the
// request.
func asUnsent(err error) error {
	if e, ok := errors.AsType[*NeedsAuthError](err); ok {
		return fmt.Errorf("%w: %w", session.ErrNotSent, e)
	}
	return err
}

// refused deals with an HTTP error: a JSON-RPC error in its body is the answer to the
// request, unless it is about the session or the transport.
func (l *Streamable) refused(resp *http.Response, o *peer.Outgoing, inSession, last bool) error {
	body, m, code := readRefusal(resp)
	switch {
	case inSession && resp.StatusCode == http.StatusNotFound && code != session.CodeMethodNotFound,
		// Servers that are built after the SDK's examples answer so.
		inSession && resp.StatusCode == http.StatusBadRequest && code == -32000 && m.ID == nil:
		return fmt.Errorf("%w: %w", session.ErrNotSent, errForgotten)
	case code == codeHeaderMismatch && !last:
		return errMismatch
	case m.Error != nil && retryAdvice(resp) != "": // which the error need not say
		return l.site.statusError(resp, []byte(wire.Text(m.Error, "message")))
	case m.Error == nil || o.ID == 0, o.Method == peer.Initialize && !isModern(code):
		return l.site.statusError(resp, body)
	}
	l.site.hideError(&m)
	l.conn.Settle(o.ID, peer.Reply{Message: m})
	return nil
}

// isModern reports whether an error with this code comes from a server of the
// modern era, if it is the answer to a legacy message.
func isModern(code int64) bool {
	return slices.Contains([]int64{codeHeaderMismatch, codeMissingCapability, peer.CodeUnsupportedVersion, session.CodeMethodNotFound, session.CodeInvalidParams}, code)
}

// accept receives the messages in data, which came because of the request o, or
// without a request if its ID is 0. It reports whether the answer was among them.
func (l *Streamable) accept(data []byte, o *peer.Outgoing, revision string) (answered bool) {
	receiveAll(l.conn, l.site.HideTokens(data), func(m wire.Message) error {
		if !m.IsResponse() {
			return l.conn.Receive(m, o.ID)
		}
		if id, err := peer.OurID(m.ID); o.ID == 0 || err != nil && m.ID != nil || err == nil && id != o.ID {
			return l.conn.Receive(m, o.ID)
		}
		if o.Method == "tools/list" && revision >= session.Modern && m.Result != nil {
			m.Result = l.mirrors.learn(o.Params, m.Result, func(tool string, why error) {
				l.log.Warn("left out a tool whose x-mcp-header annotations are invalid", zap.String("tool", tool), zap.Error(why))
			})
		}
		answered = true
		l.site.hideError(&m)
		l.conn.Settle(o.ID, peer.Reply{Message: m})
		return nil
	})
	return answered
}

// request returns an HTTP request of the session.
func (l *Streamable) request(ctx context.Context, method, accept string, body []byte) (*http.Request, error) {
	r, err := l.site.request(ctx, method, l.site.url.String(), accept, body)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.revision != "" {
		r.Header.Set("MCP-Protocol-Version", l.revision)
	}
	if l.id != "" && l.revision < session.Modern {
		r.Header.Set("Mcp-Session-Id", l.id)
	}
	return r, nil
}
