package httpd

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
)

const (
	// lazily is how long a reply waits for an answer before it begins a stream, and
	// longer how long if the answer may have a status of its own, which a stream that
	// was begun can't have any more.
	lazily = 50 * time.Millisecond
	longer = 5 * time.Second

	// keepAlive is how often something is written on an idle stream.
	keepAlive = 25 * time.Second
)

var errNotAcceptable = conversation.InvalidRequest("the client must accept application/json and text/event-stream")

// streamable is streamable HTTP: messages of both eras, and the sessions of the
// legacy era.
type streamable struct {
	sessions *sessions
	views    *views
	work     *work
	log      *zap.Logger
}

// post takes a message of either era.
func (t *streamable) post(w http.ResponseWriter, r *http.Request) {
	version, id := r.Header.Get(headerVersion), r.Header.Get(headerSession)
	objects, _ := accepts(r, "application/json")
	if streams, _ := accepts(r, "text/event-stream"); !objects || !streams {
		refuse(w, r, http.StatusNotAcceptable, nil, errNotAcceptable)
		return
	}
	body, ok := message(w, r)
	if !ok {
		return
	}
	if wire.IsArray(body) {
		t.batch(w, r, body)
		return
	}
	m, err := parseBody(body)
	if err != nil {
		refuse(w, r, http.StatusBadRequest, m.ID, err)
		return
	}
	if t.views.refuseCall(w, r, m) {
		return
	}
	switch {
	case version >= session.Modern, m.IsRequest() && m.Protocol != nil,
		m.IsRequest() && version == "" && id == "" && m.Method != "initialize" && m.Method != "ping":
		t.modern(w, r, m)
	case version != "" && !conversation.IsLegacy(version):
		refuse(w, r, http.StatusBadRequest, m.ID, conversation.Unsupported(version))
	case id == "" && m.IsRequest() && m.Method == "initialize":
		t.initialize(w, r, m)
	case id == "":
		refuse(w, r, http.StatusBadRequest, m.ID, conversation.InvalidRequest("the message needs the "+headerSession+" of the answer to initialize"))
	default:
		t.legacy(w, r, m)
	}
}

// modern answers a request that has no session.
func (t *streamable) modern(w http.ResponseWriter, r *http.Request, m conversation.Message) {
	q := requestOf(r)
	if m.IsResponse() {
		refuse(w, r, http.StatusBadRequest, nil, conversation.InvalidRequest("the client was asked nothing"))
		return
	}
	if err := checkHeaders(q.backend.Catalog, r, m); err != nil {
		refuse(w, r, http.StatusBadRequest, m.ID, err)
		return
	}
	if m.IsNotification() {
		accepted(w)
		return
	}
	done, err := t.work.admit(m.Method)
	if err != nil {
		refuse(w, r, refusalStatus(err), m.ID, err)
		return
	}
	if m.Method == "subscriptions/listen" {
		var stop func()
		r, stop = lasting(r)
		defer stop()
	}
	c := q.backend.Clients.Visit(false, q.client.grant.identity(), r.UserAgent())
	defer c.Close()
	s := newStream("")
	if err := t.work.once(r, c, m, s, func(call *conversation.Request) {
		t.cutsOff(s, call)
		p := reply{s, longer, func(answer []byte) int { return answerStatus(answer, m.ID) }, hello, func() []byte { return t.run(call) }, done}
		p.send(w, r)
	}); err != nil {
		done()
		refuse(w, r, refusalStatus(err), m.ID, err)
	}
}

// once begins a request that ends with its connection and its grant, and calls handle with it
// unless the request is not let in.
func (under *work) once(r *http.Request, c *conversation.Conversation, m conversation.Message, w conversation.Writer, handle func(*conversation.Request)) error {
	q := requestOf(r)
	if q.revoked() {
		return errRevoked
	}
	call, err := c.Begin(r.Context(), traced(r.Header, m), w)
	if err != nil {
		return err
	}
	defer context.AfterFunc(under.ctx, func() { call.Cancel(conversation.ErrClosed) })()
	defer context.AfterFunc(q.client.grant.ctx, func() { call.Cancel(errRevoked) })()
	defer call.Trail.End()
	handle(call)
	return nil
}

// initialize opens a session.
func (t *streamable) initialize(w http.ResponseWriter, r *http.Request, m conversation.Message) {
	q := requestOf(r)
	s, err := t.sessions.open(q.backend, q.client.grant)
	if err != nil {
		refuse(w, r, http.StatusServiceUnavailable, m.ID, err)
		return
	}
	defer t.sessions.release(s)
	call, err := s.conversation.Begin(t.work.ctx, m, discard{})
	if err != nil {
		t.sessions.remove(s)
		status := http.StatusOK
		if err == conversation.ErrClosed {
			status = http.StatusServiceUnavailable
		}
		refuse(w, r, status, m.ID, err)
		return
	}
	w.Header().Set(headerSession, s.id)
	writeJSON(w, r, http.StatusOK, call.Run())
}

// legacy takes a message of a session.
func (t *streamable) legacy(w http.ResponseWriter, r *http.Request, m conversation.Message) {
	s, ok := t.session(w, r)
	if !ok {
		return
	}
	defer t.sessions.release(s)
	switch {
	case m.IsResponse(), m.IsNotification():
		s.conversation.Receive(m)
		accepted(w)
	default:
		t.legacyRequest(w, r, s, m)
	}
}

// legacyRequest answers a request of a session. The request goes on if the client is cut
// off: the client can resume the stream. The connection is kept until then.
func (t *streamable) legacyRequest(w http.ResponseWriter, r *http.Request, s *httpSession, m conversation.Message) {
	done, err := t.work.admit(m.Method)
	if err != nil {
		refuse(w, r, http.StatusServiceUnavailable, m.ID, err)
		return
	}
	st := s.newStream()
	call, err := s.conversation.Begin(t.work.ctx, traced(r.Header, m), st)
	if err != nil {
		done()
		status := http.StatusOK
		if err == conversation.ErrClosed {
			status = http.StatusNotFound // the session has just ended
		}
		refuse(w, r, status, m.ID, err)
		return
	}
	defer call.Trail.End()
	t.cutsOff(st, call)
	p := t.lasting(s, st, func() []byte { return t.run(call) }, done)
	p.send(w, r)
}

// cutsOff has a request end whose client does not read.
func (t *streamable) cutsOff(s *stream, r *conversation.Request) {
	s.cut = func() {
		t.log.Warn("the client does not read; its request is cancelled", zap.String("method", r.Method))
		r.Cancel(conversation.ErrUnread)
	}
}

// run handles a request, and returns its answer, nil if it has none.
func (t *streamable) run(r *conversation.Request) (answer []byte) {
	answer = r.Run()
	if answer == nil && t.work.ctx.Err() != nil {
		answer = conversation.Refusal(r.ID, conversation.ErrClosed)
	}
	return answer
}

// lasting returns the reply to a request of a session, whose client can resume the stream.
func (t *streamable) lasting(s *httpSession, st *stream, run func() []byte, done func()) reply {
	return reply{st, lazily, func([]byte) int { return http.StatusOK }, func(w http.ResponseWriter) error { return prime(w, s, st) }, run, done}
}

// prime begins a stream with the event that the client needs to resume it.
func prime(w http.ResponseWriter, s *httpSession, st *stream) error {
	s.keep(st)
	if s.conversation.Revision() < "2025-11-25" { // clients of older revisions take every event for a message
		return hello(w)
	}
	if _, err := w.Write([]byte("id: " + st.eventID(0) + "\nretry: " + retry + "\ndata:\n\n")); err != nil {
		return err
	}
	return flush(w)
}

// refusalStatus is the status of a modern request that was not let in.
func refusalStatus(err error) int {
	switch {
	case err == conversation.ErrClosed:
		return http.StatusServiceUnavailable
	case err == error(errRevoked):
		return http.StatusUnauthorized
	case conversation.AsError(err).Code == session.CodeMethodNotFound:
		return http.StatusNotFound
	}
	return http.StatusBadRequest
}

// answerStatus is the status of the answer to a modern request with the id, so that
// proxies need not read the answer.
func answerStatus(answer []byte, id json.RawMessage) int {
	rest := bytes.TrimPrefix(answer, []byte(`{"jsonrpc":"2.0","id":`))
	if rest, ok := bytes.CutPrefix(rest, id); !ok || !bytes.HasPrefix(rest, []byte(`,"error":`)) {
		return http.StatusOK
	}
	switch code, _ := strconv.Atoi(string(wire.Member(wire.Member(answer, "error"), "code"))); code {
	case session.CodeMethodNotFound:
		return http.StatusNotFound
	case session.CodeParse, session.CodeInvalidRequest, conversation.CodeHeaderMismatch, conversation.CodeMissingCapability, conversation.CodeUnsupportedVersion:
		return http.StatusBadRequest
	}
	return http.StatusOK
}
