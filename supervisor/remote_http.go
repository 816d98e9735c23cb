package supervisor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/session"
)

// maxUnreached is how many requests in a row may find nobody at the other end
// before the session counts as ended.
const maxUnreached = 3

// Errors of the modern era (2026-07-28, transports/streamable-http).
const (
	codeHeaderMismatch     = -32020
	codeMissingCapability  = -32021
	codeUnsupportedVersion = -32022
)

// errForgotten says that the far end does not know the session any more, and so
// has not looked at what was asked.
var errForgotten = errors.New("the server has forgotten the session")

// streamable is the link over streamable HTTP, of both eras: each message is a
// POST of its own.
type streamable struct {
	peer    *peer
	site    *site
	log     *zap.Logger
	mirrors mirrors
	asides  chan struct{} // holds an item for each message under way that nobody waits for

	unreached atomic.Int32 // requests in a row that found nobody

	ctx   context.Context // of all that is under way
	abort context.CancelFunc

	// mu guards what follows.
	mu       sync.Mutex
	id       string // of the session; "" if there is none
	revision string // agreed on; "" before the handshake has ended
	calls    map[int64]inFlight
}

// An inFlight is a request whose answer has not come yet.
type inFlight struct {
	modern bool
	abort  context.CancelFunc
}

// openWait is how long the first request waits for the server's own stream to be
// open: what it says there before that is lost.
const openWait = time.Second

func newStreamable(p *peer, s *site, log *zap.Logger) *streamable {
	l := &streamable{peer: p, site: s, log: log, asides: make(chan struct{}, asideQueue), calls: make(map[int64]inFlight)}
	l.ctx, l.abort = context.WithCancel(context.Background())
	p.link = l
	return l
}

// send implements [link].
func (l *streamable) send(ctx context.Context, o *outgoing) error {
	revision := l.agreed(o)
	if o.method == initialized { // nothing may overtake it
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(l.ctx, cancel)()
		err := l.try(ctx, o, revision, true)
		if _, no := errors.AsType[*statusError](err); err != nil && !no { // some do not know it, and do well without
			return err
		}
		l.abortProbe()
		listening := make(chan struct{})
		if l.peer.spawn(func() { l.listen(sync.OnceFunc(func() { close(listening) })) }) {
			within(listening, openWait)
		}
		return nil
	}
	call, abort := context.WithCancel(l.ctx)
	if o.id == 0 {
		abort()
		call, abort = context.WithTimeout(l.ctx, asideTimeout)
	} else {
		l.mu.Lock()
		l.calls[o.id] = inFlight{modern: revision >= session.Modern, abort: abort}
		l.mu.Unlock()
	}
	ended := func() {
		abort()
		l.mu.Lock()
		delete(l.calls, o.id)
		l.mu.Unlock()
	}
	if !l.peer.spawn(func() { defer ended(); l.exchange(call, o, revision) }) {
		ended()
		return session.ErrClosed
	}
	return nil
}

// abortProbe ends what a legacy server has left unanswered of the modern era.
func (l *streamable) abortProbe() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, call := range l.calls {
		if call.modern {
			call.abort()
		}
	}
}

// agreed returns the protocol revision in which a message is sent. It is called
// where the handshake is made or after it, so the peer's info may be read.
func (l *streamable) agreed(o *outgoing) string {
	switch o.method {
	case discover:
		return session.Modern
	case initialize:
		return ""
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.revision = l.peer.info.ProtocolVersion
	return l.revision
}

// aside implements [link].
func (l *streamable) aside(o *outgoing) error {
	l.mu.Lock()
	revision := l.revision
	abort := func() {}
	if o.method == cancelled {
		id, _ := ourID(wire.Member(o.params, "requestId"))
		if call, ok := l.calls[id]; ok {
			abort = call.abort
			if call.modern {
				revision = session.Modern
			}
		}
	}
	l.mu.Unlock()
	if revision >= session.Modern {
		abort() // "closing the SSE response stream is itself the cancellation signal"
		return nil
	}
	select {
	case l.asides <- struct{}{}:
	default:
		abort()
		return errors.New("the server does not read, or asks too much at once")
	}
	if !l.peer.spawn(func() {
		defer func() { <-l.asides }()
		defer abort()
		ctx, cancel := context.WithTimeout(l.ctx, asideTimeout)
		defer cancel()
		l.exchange(ctx, o, revision)
	}) {
		<-l.asides
	}
	return nil
}

// end implements [remote].
func (l *streamable) end() {
	defer l.abort()
	l.mu.Lock()
	id := l.id
	l.mu.Unlock()
	if id == "" || errors.Is(l.peer.cause, errForgotten) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
	defer cancel()
	if r, err := l.request(ctx, http.MethodDelete, "*/*", nil); err == nil {
		if resp, err := l.site.do(r); err == nil {
			discardBody(resp)
		}
	}
}

// exchange sends a message and sees to it that its answer, or why there is none,
// reaches the peer. "If the server rejects a request with a HeaderMismatch error
// … the client SHOULD call tools/list …, then retry."
func (l *streamable) exchange(ctx context.Context, o *outgoing, revision string) {
	err := l.try(ctx, o, revision, o.method != "tools/call")
	if errors.Is(err, errMismatch) {
		l.relist(ctx)
		err = l.try(ctx, o, revision, true)
	}
	if err == nil {
		return
	}
	l.mu.Lock()
	shaking := l.revision == "" // and fails by itself
	l.mu.Unlock()
	var cause error
	if !shaking {
		cause = l.over(err)
	}
	if cause != nil {
		l.peer.refuse() // before who learns of it asks again
	}
	if o.id != 0 {
		r := reply{err: err}
		if o.method == discover && !errors.Is(err, session.ErrNotSent) && !isPassing(err) {
			// "Not a recognised modern JSON-RPC error": for the peer, a legacy server.
			refusal := &session.Error{Code: session.CodeMethodNotFound, Message: err.Error()}
			r = reply{message: wire.Message{Error: wire.Marshal(refusal)}}
		}
		l.peer.settle(o.id, r)
	} else if ctx.Err() == nil {
		l.log.Debug("a message was not accepted", zap.String("method", o.method), zap.Error(err))
	}
	if cause != nil {
		l.peer.close(cause)
	}
}

// over returns why there can't be a session any more after err, nil if there can.
func (l *streamable) over(err error) error {
	if e, ok := errors.AsType[*needsAuthError](err); ok && e.forAll() {
		return e
	}
	switch {
	case errors.Is(err, errForgotten):
		return errForgotten
	case l.unreached.Load() >= maxUnreached:
		return fmt.Errorf("%d requests in a row did not reach it: %w", maxUnreached, err)
	}
	return nil
}

// isPassing reports whether an error says nothing of which era the server speaks.
func isPassing(err error) bool {
	if _, ok := errors.AsType[*needsAuthError](err); ok {
		return true
	}
	e, ok := errors.AsType[*statusError](err)
	return ok && (e.status == http.StatusTooManyRequests || e.status > http.StatusNotImplemented)
}

// try sends a message once and takes in what comes back. last says that it will
// not be tried again, whatever the answer.
func (l *streamable) try(ctx context.Context, o *outgoing, revision string, last bool) error {
	r, err := l.request(ctx, http.MethodPost, "application/json, "+eventStream, o.line)
	if err != nil {
		return fmt.Errorf("%w: %w", session.ErrNotSent, err)
	}
	l.address(r.Header, o, revision)
	resp, err := l.site.do(r)
	if err != nil {
		if ctx.Err() == nil && (errors.Is(err, session.ErrNotSent) || errors.Is(err, session.ErrClosed)) {
			l.unreached.Add(1)
		}
		return asUnsent(err)
	}
	l.unreached.Store(0)
	defer resp.Body.Close()
	if resp.StatusCode/100 != 2 {
		return l.refused(resp, o, r.Header.Get("Mcp-Session-Id") != "", last)
	}
	if id := resp.Header.Get("Mcp-Session-Id"); id != "" && o.method == initialize {
		l.mu.Lock()
		l.id = id
		l.mu.Unlock()
	}
	return l.receive(ctx, resp, o, revision)
}

// asUnsent adds to a refusal that asks for a token that the request was not
// looked at.
func asUnsent(err error) error {
	if e, ok := errors.AsType[*needsAuthError](err); ok {
		return fmt.Errorf("%w: %w", session.ErrNotSent, e)
	}
	return err
}

// receive takes in the answer to a message that was accepted.
func (l *streamable) receive(ctx context.Context, resp *http.Response, o *outgoing, revision string) error {
	switch {
	case o.id == 0:
		discardBody(resp)
		return nil
	case isEventStream(resp):
		return l.follow(ctx, resp, o, revision)
	}
	body, err := readBody(resp)
	if err != nil {
		return err
	}
	if !l.accept(body, o, revision) {
		return newStatusError(resp, body)
	}
	return nil
}

// refused deals with an answer that is no success: a JSON-RPC error in its body
// is the answer to the request, except where it is about the session or the
// transport.
func (l *streamable) refused(resp *http.Response, o *outgoing, inSession, last bool) error {
	body, m, code := readRefusal(resp)
	switch {
	case inSession && resp.StatusCode == http.StatusNotFound && code != session.CodeMethodNotFound,
		// How many servers that are built after the SDK's examples put it.
		inSession && resp.StatusCode == http.StatusBadRequest && code == -32000 && m.ID == nil:
		return fmt.Errorf("%w: %w", session.ErrNotSent, errForgotten)
	case code == codeHeaderMismatch && !last:
		return errMismatch
	case m.Error == nil || o.id == 0, o.method == initialize && !isModern(code):
		return newStatusError(resp, body)
	}
	l.peer.settle(o.id, reply{message: m})
	return nil
}

// isModern reports whether an error with this code comes from a server of the
// modern era, if it is the answer to a legacy message.
func isModern(code int64) bool {
	switch code {
	case codeHeaderMismatch, codeMissingCapability, codeUnsupportedVersion, session.CodeMethodNotFound, session.CodeInvalidParams:
		return true
	}
	return false
}

// accept takes in what the server says because of the request o, or by itself if
// o is nil. It reports whether the answer was in it.
func (l *streamable) accept(data []byte, o *outgoing, revision string) (answered bool) {
	if o == nil {
		o = &outgoing{}
	}
	l.peer.each(data, func(m wire.Message) error {
		if !m.IsResponse() {
			return l.peer.take(m, o.id)
		}
		if id, err := ourID(m.ID); o.id == 0 || err != nil && m.ID != nil || err == nil && id != o.id {
			return l.peer.take(m, o.id)
		}
		if o.method == "tools/list" && revision >= session.Modern && m.Result != nil {
			m.Result = l.mirrors.learn(m.Result, func(tool string, why error) {
				l.log.Warn("left out a tool whose x-mcp-header annotations are invalid", zap.String("tool", tool), zap.Error(why))
			})
		}
		answered = true
		l.peer.settle(o.id, reply{message: m})
		return nil
	})
	return answered
}

// request returns a request to the endpoint that belongs to the session.
func (l *streamable) request(ctx context.Context, method, accept string, body []byte) (*http.Request, error) {
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
