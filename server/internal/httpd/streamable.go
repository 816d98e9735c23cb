package httpd

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
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
	work     *work
	log      *zap.Logger

	lazily, longer waits
}

// post takes a message of either era.
func (t *streamable) post(x *exchange) {
	version, id := x.r.Header.Get(headerVersion), x.r.Header.Get(headerSession)
	objects, _ := accepts(x.r, "application/json")
	if streams, _ := accepts(x.r, "text/event-stream"); !objects || !streams {
		x.refuse(http.StatusNotAcceptable, nil, errNotAcceptable)
		return
	}
	body, ok := x.message()
	if !ok {
		return
	}
	if wire.IsArray(body) {
		t.batch(x, body)
		return
	}
	m, err := parseBody(body)
	if err != nil {
		x.refuse(http.StatusBadRequest, m.ID, err)
		return
	}
	if x.refuseCall(m) {
		return
	}
	modern := wire.Member(wire.Member(m.Params, "_meta"), conversation.MetaVersion) != nil
	switch {
	case version >= session.Modern, m.IsRequest() && modern,
		m.IsRequest() && version == "" && id == "" && m.Method != "initialize" && m.Method != "ping":
		t.modern(x, m)
	case version != "" && !conversation.IsLegacy(version):
		x.refuse(http.StatusBadRequest, m.ID, conversation.Unsupported(version))
	case id == "" && m.IsRequest() && m.Method == "initialize":
		t.initialize(x, m)
	case id == "":
		x.refuse(http.StatusBadRequest, m.ID, conversation.InvalidRequest("the message needs the "+headerSession+" of the answer to initialize"))
	default:
		t.legacy(x, m)
	}
}

// modern answers a request that has no session.
func (t *streamable) modern(x *exchange, m wire.Message) {
	if m.IsResponse() {
		x.refuse(http.StatusBadRequest, nil, conversation.InvalidRequest("the client was asked nothing"))
		return
	}
	if err := checkHeaders(x.backend.Catalog, x.r, m); err != nil {
		x.refuse(http.StatusBadRequest, m.ID, err)
		return
	}
	if m.IsNotification() {
		x.accepted()
		return
	}
	done, err := t.work.admit(m.Method)
	if err != nil {
		x.refuse(refusalStatus(err), m.ID, err)
		return
	}
	if m.Method == "subscriptions/listen" {
		defer x.lasting()()
	}
	c := x.backend.Clients.Visit(false, x.grant.identity(), x.r.UserAgent())
	defer c.Close()
	s := newStream("")
	if err := once(x, c, m, s, func(r *conversation.Request) {
		t.cutsOff(s, r)
		p := reply{s, &t.longer, func(answer []byte) int { return answerStatus(answer, m.ID) }, hello, func() []byte { return t.run(r) }, done}
		p.send(x)
	}); err != nil {
		done()
		x.refuse(refusalStatus(err), m.ID, err)
	}
}

// once begins a request that ends with its connection, and calls handle with it
// unless the request is not let in.
func once(x *exchange, c *conversation.Conversation, m wire.Message, w conversation.Writer, handle func(*conversation.Request)) error {
	ctx, cancel := context.WithCancelCause(x.context())
	defer cancel(nil)
	defer context.AfterFunc(x.ending, func() { cancel(conversation.ErrClosed) })()
	if x.revoked() {
		return errRevoked
	}
	r, err := c.Begin(ctx, traced(x.r.Header, m), w)
	if err == nil {
		defer r.Trail.End()
		handle(r)
	}
	return err
}

// initialize opens a session.
func (t *streamable) initialize(x *exchange, m wire.Message) {
	s, err := t.sessions.open(x.backend, x.grant)
	if err != nil {
		x.refuse(http.StatusServiceUnavailable, m.ID, err)
		return
	}
	defer t.sessions.release(s)
	r, err := s.conversation.Begin(t.work.ctx, m, discard{})
	if err != nil {
		t.sessions.remove(s)
		status := http.StatusOK
		if err == conversation.ErrClosed {
			status = http.StatusServiceUnavailable
		}
		x.refuse(status, m.ID, err)
		return
	}
	x.w.Header().Set(headerSession, s.id)
	x.json(http.StatusOK, r.Run())
}

// legacy takes a message of a session.
func (t *streamable) legacy(x *exchange, m wire.Message) {
	s, ok := t.session(x)
	if !ok {
		return
	}
	defer t.sessions.release(s)
	switch {
	case m.IsResponse(), m.IsNotification():
		s.conversation.Receive(m)
		x.accepted()
	default:
		t.legacyRequest(x, s, m)
	}
}

// legacyRequest answers a request of a session. The request goes on if the client is cut
// off: the client can resume the stream. The connection is kept until then.
func (t *streamable) legacyRequest(x *exchange, s *httpSession, m wire.Message) {
	done, err := t.work.admit(m.Method)
	if err != nil {
		x.refuse(http.StatusServiceUnavailable, m.ID, err)
		return
	}
	st := s.newStream()
	r, err := s.conversation.Begin(t.work.ctx, traced(x.r.Header, m), st)
	if err != nil {
		done()
		status := http.StatusOK
		if err == conversation.ErrClosed {
			status = http.StatusNotFound // the session has just ended
		}
		x.refuse(status, m.ID, err)
		return
	}
	defer r.Trail.End()
	t.cutsOff(st, r)
	p := t.lasting(s, st, func() []byte { return t.run(r) }, done)
	p.send(x)
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
	return reply{st, &t.lazily, func([]byte) int { return http.StatusOK }, func(x *exchange) error { return prime(x, s, st) }, run, done}
}

// prime begins a stream with the event that the client needs to resume it.
func prime(x *exchange, s *httpSession, st *stream) error {
	s.keep(st)
	if s.conversation.Revision() < "2025-11-25" { // clients of older revisions take every event for a message
		return hello(x)
	}
	if err := x.write([]byte("id: " + st.eventID(0) + "\nretry: " + retry + "\ndata:\n\n")); err != nil {
		return err
	}
	return x.flush()
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
	if !bytes.HasPrefix(answer, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":`, id)) {
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
