package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/session"
)

const (
	// lazily is how long an answer is waited for before a stream is begun, and
	// longer how long if it may deserve a status of its own, which a stream that
	// was begun can't tell any more.
	lazily = 50 * time.Millisecond
	longer = 5 * time.Second

	// keepAlive is how often a stream on which nothing else happens is written to.
	keepAlive = 25 * time.Second
)

var errNotAcceptable = invalidRequest("the client must accept application/json and text/event-stream")

// post takes a message, of whichever era or none.
func (x *exchange) post() {
	version, id := x.r.Header.Get(headerVersion), x.r.Header.Get(headerSession)
	streams, named := x.accepts("text/event-stream")
	if !named && version == "" && id == "" {
		x.plain()
		return
	}
	if objects, _ := x.accepts("application/json"); !objects || !streams {
		x.refuse(http.StatusNotAcceptable, nil, errNotAcceptable)
		return
	}
	body, ok := x.message()
	if !ok {
		return
	}
	if wire.IsArray(body) {
		x.batch(body)
		return
	}
	m, err := parseBody(body)
	if err != nil {
		x.refuse(http.StatusBadRequest, m.ID, err)
		return
	}
	said := wire.Member(wire.Member(m.Params, "_meta"), metaVersion)
	switch {
	case version >= session.Modern, m.IsRequest() && said != nil,
		m.IsRequest() && version == "" && id == "" && m.Method != "initialize" && m.Method != "ping":
		x.modern(m)
	case version != "" && !slices.Contains(legacyRevisions, version):
		x.refuse(http.StatusBadRequest, m.ID, unsupported(version))
	case id == "" && m.IsRequest() && m.Method == "initialize":
		x.initialize(m)
	case id == "":
		x.refuse(http.StatusBadRequest, m.ID, invalidRequest("the message needs the "+headerSession+" that the answer to initialize bore"))
	default:
		x.legacy(m)
	}
}

// modern answers a request that stands for itself.
func (x *exchange) modern(m wire.Message) {
	if m.IsResponse() {
		x.refuse(http.StatusBadRequest, nil, invalidRequest("the client was asked nothing"))
		return
	}
	if err := x.checkHeaders(m); err != nil {
		x.refuse(http.StatusBadRequest, m.ID, err)
		return
	}
	if m.IsNotification() {
		x.accepted()
		return
	}
	done, err := x.h.admit(m.Method)
	if err != nil {
		x.refuse(refusalStatus(err), m.ID, err)
		return
	}
	c := x.visit(false)
	defer c.close()
	s := newStream("")
	if err := x.once(c, m, s, func(r *request) {
		x.h.carryOut(r, s, done)
		x.respond(s, longer, func(answer []byte) int { return answerStatus(answer, m.ID) }, x.hello)
	}); err != nil {
		done()
		x.refuse(refusalStatus(err), m.ID, err)
	}
}

// once begins a request that ends with its connection, and has it carried out,
// unless it fails.
func (x *exchange) once(c *conversation, m wire.Message, out outlet, carryOut func(*request)) error {
	ctx, cancel := context.WithCancelCause(x.r.Context())
	defer cancel(nil)
	defer context.AfterFunc(x.h.ctx, func() { cancel(errClosed) })()
	r, err := c.begin(ctx, x.traced(m), out)
	if err == nil {
		carryOut(r)
	}
	return err
}

// initialize opens a session.
func (x *exchange) initialize(m wire.Message) {
	s, err := x.h.open(x.principal)
	if err != nil {
		x.refuse(http.StatusServiceUnavailable, m.ID, err)
		return
	}
	defer x.h.release(s)
	r, err := s.talk.begin(x.h.ctx, m, nowhere{})
	if err != nil {
		x.h.mu.Lock()
		x.h.remove(s)
		x.h.mu.Unlock()
		status := http.StatusOK
		if err == errClosed {
			status = http.StatusServiceUnavailable
		}
		x.refuse(status, m.ID, err)
		return
	}
	x.w.Header().Set(headerSession, s.id)
	x.json(http.StatusOK, r.run())
}

// legacy takes a message of a session.
func (x *exchange) legacy(m wire.Message) {
	s, ok := x.session()
	if !ok {
		return
	}
	defer x.h.release(s)
	switch {
	case m.IsResponse():
		s.talk.responded(m)
		x.accepted()
	case m.IsNotification():
		s.talk.notified(m)
		x.accepted()
	default:
		x.legacyRequest(s, m)
	}
}

// legacyRequest answers a request of a session. It goes on if the client is cut
// off, which resumes the stream then.
func (x *exchange) legacyRequest(s *httpSession, m wire.Message) {
	done, err := x.h.admit(m.Method)
	if err != nil {
		x.refuse(http.StatusServiceUnavailable, m.ID, err)
		return
	}
	st := s.newStream()
	r, err := s.talk.begin(x.h.ctx, x.traced(m), st)
	if err != nil {
		done()
		status := http.StatusOK
		if err == errClosed {
			status = http.StatusNotFound // the session has just ended
		}
		x.refuse(status, m.ID, err)
		return
	}
	x.h.mu.Lock()
	x.h.occupy(s)
	x.h.mu.Unlock()
	x.h.carryOut(r, st, func() {
		done()
		x.h.release(s)
	})
	x.follows(s, st)
}

// follows answers with what comes on a stream of the session.
func (x *exchange) follows(s *httpSession, st *stream) {
	if !x.respond(st, lazily, func([]byte) int { return http.StatusOK }, func() error { return x.prime(s, st) }) {
		st.discard() // the client does not know it, and can't resume it
	}
}

// prime begins a stream with what the client needs to resume it.
func (x *exchange) prime(s *httpSession, st *stream) error {
	s.keep(st)
	if s.talk.revision() < "2025-11-25" { // its clients take every event for a message
		return x.hello()
	}
	if err := x.write([]byte("id: " + st.eventID(0) + "\nretry: " + retry + "\ndata:\n\n")); err != nil {
		return err
	}
	return x.flush()
}

// refusalStatus is the status of a modern request that was not let in.
func refusalStatus(err error) int {
	switch {
	case err == errClosed:
		return http.StatusServiceUnavailable
	case asError(err).Code == session.CodeMethodNotFound:
		return http.StatusNotFound
	}
	return http.StatusBadRequest
}

// answerStatus is the status of the answer to a modern request with the id. It
// says what clients and proxies can't see without reading the answer.
func answerStatus(answer []byte, id json.RawMessage) int {
	if !bytes.HasPrefix(answer, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":`, id)) {
		return http.StatusOK
	}
	switch code, _ := strconv.Atoi(string(wire.Member(wire.Member(answer, "error"), "code"))); code {
	case session.CodeMethodNotFound:
		return http.StatusNotFound
	case session.CodeParse, session.CodeInvalidRequest, codeHeaderMismatch, codeMissingCapability, codeUnsupportedVersion:
		return http.StatusBadRequest
	}
	return http.StatusOK
}

// prefersStream reports whether the client names event streams before JSON in
// Accept, as few do.
func (x *exchange) prefersStream() bool {
	accept := strings.Join(x.r.Header.Values("Accept"), ",")
	stream, object := strings.Index(accept, "text/event-stream"), strings.Index(accept, "application/json")
	return stream >= 0 && stream < object
}

// respond answers with what comes on the stream: the answer alone, if that comes
// first and within the wait, with the status that it deserves, else events, which
// open begins. It reports false if the client left before anything was written. A
// request that was cancelled has no answer. A client that prefers events gets them
// in any case, unless the answer deserves a status of its own.
func (x *exchange) respond(s *stream, wait time.Duration, status func(answer []byte) int, open func() error) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	for {
		answer, state, changed := s.peek()
		switch state {
		case answered:
			code := status(answer)
			if code == http.StatusOK && x.prefersStream() {
				return x.follow(s, 0, false, open)
			}
			x.json(code, answer)
			return true
		case cancelled:
			x.accepted()
			return true
		case begun:
			return x.follow(s, 0, false, open)
		}
		select {
		case <-changed:
		case <-timer.C:
			return x.follow(s, 0, false, open)
		case <-x.r.Context().Done():
			return false
		}
	}
}
