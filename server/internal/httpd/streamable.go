package httpd

import (
	"bytes"
	"cmp"
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
	lazily = 500 * time.Millisecond
	longer = 5 * time.Second

	// keepAlive is how often something is written on an idle stream.
	keepAlive = 25 * time.Second
)

var errNotAcceptable = conversation.InvalidRequest("the client must accept application/json and text/event-stream")

// streamable is streamable HTTP: messages of both eras, and the sessions of the
// legacy era.
type streamable struct {
	*sessions
	backends *Backends
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
	m, err := conversation.Parse(body)
	if err != nil {
		refuse(w, r, http.StatusBadRequest, m.ID, err)
		return
	}
	wire.OneLine(body)
	if t.backends.refuseCall(w, r, m) {
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
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if err := t.work.admit(m.Method); err != nil {
		refuse(w, r, statusOf(err, modernStatus, http.StatusBadRequest), m.ID, err)
		return
	}
	if subscribes(m.Method) {
		ctx, stop := q.client.Lasting(r.Context())
		defer stop()
		r = r.WithContext(ctx)
	}
	p := &reply{of: t, w: w, r: r, method: m.Method}
	p.stream = &p.own
	call, err := t.work.visit(responseOf(w), r, false, m, p.stream)
	if err != nil {
		t.work.answered(m.Method)
		refuse(w, r, statusOf(err, modernStatus, http.StatusBadRequest), m.ID, err)
		return
	}
	defer call.Close()
	p.call = call
	p.send()
}

// initialize opens a session.
func (t *streamable) initialize(w http.ResponseWriter, r *http.Request, m conversation.Message) {
	q := requestOf(r)
	s, err := t.sessions.open(q.backend, q.client.Grant)
	if err != nil {
		refuse(w, r, http.StatusServiceUnavailable, m.ID, err)
		return
	}
	defer t.sessions.release(s)
	call, err := s.conversation.Begin(t.work.ctx, m, noStream)
	if err != nil {
		t.sessions.remove(s)
		refuse(w, r, statusOf(err, nil, http.StatusOK), m.ID, err)
		return
	}
	w.Header().Set(headerSession, s.id)
	writeJSON(w, r, http.StatusOK, call.Run())
}

// legacy takes a message of a session. A request goes on if the client is cut
// off: the client can resume the stream. The connection is kept until then.
func (t *streamable) legacy(w http.ResponseWriter, r *http.Request, m conversation.Message) {
	s, ok := t.session(w, r)
	if !ok {
		return
	}
	defer t.sessions.release(s)
	if !m.IsRequest() {
		s.conversation.Receive(m)
		w.WriteHeader(http.StatusAccepted)
		return
	}
	if err := t.work.admit(m.Method); err != nil {
		refuse(w, r, http.StatusServiceUnavailable, m.ID, err)
		return
	}
	st := s.newStream()
	call, err := s.conversation.Begin(requestOf(r).client.WithSubject(t.work.ctx), traced(r.Header, m), st)
	if err != nil {
		t.work.answered(m.Method)
		status := http.StatusOK
		if err == conversation.ErrClosed {
			status = http.StatusNotFound // the session has just ended
		}
		refuse(w, r, status, m.ID, err)
		return
	}
	(&reply{stream: st, of: t, w: w, r: r, method: m.Method, session: s, call: call}).send()
}

// modernStatus are the statuses of errors of modern requests, by their codes.
var modernStatus = map[int64]int{
	session.CodeMethodNotFound: http.StatusNotFound,
	session.CodeParse:          http.StatusBadRequest, session.CodeInvalidRequest: http.StatusBadRequest, conversation.CodeHeaderMismatch: http.StatusBadRequest,
	conversation.CodeMissingCapability: http.StatusBadRequest, conversation.CodeUnsupportedVersion: http.StatusBadRequest,
}

// answerStatus is the status of the answer to a modern request with the id, so that
// proxies need not read the answer.
func answerStatus(answer []byte, id json.RawMessage) int {
	rest := bytes.TrimPrefix(answer, []byte(`{"jsonrpc":"2.0","id":`))
	if rest, ok := bytes.CutPrefix(rest, id); !ok || !bytes.HasPrefix(rest, []byte(`,"error":`)) {
		return http.StatusOK
	}
	code, _ := strconv.ParseInt(string(wire.Member(wire.Member(answer, "error"), "code")), 10, 64)
	return cmp.Or(modernStatus[code], http.StatusOK)
}

// delete ends the session that the client wants to end.
func (t *streamable) delete(w http.ResponseWriter, r *http.Request) {
	s, ok := t.session(w, r)
	if !ok {
		return
	}
	defer t.sessions.release(s)
	t.sessions.remove(s)
	w.WriteHeader(http.StatusNoContent)
}

// session returns the session that the request belongs to, which must be released.
// If it reports false, it has answered with an error.
func (t *streamable) session(w http.ResponseWriter, r *http.Request) (*httpSession, bool) {
	q := requestOf(r)
	if version := r.Header.Get(headerVersion); version != "" && !conversation.IsLegacy(version) {
		refuse(w, r, http.StatusBadRequest, nil, conversation.Unsupported(version))
		return nil, false
	}
	s, ok := t.sessions.use(r.Header.Get(headerSession), q.backend, q.client.Principal)
	if ok && q.revoked() { // the session is about to end
		t.sessions.release(s)
		deny(w, r, nil, q.client.Revoked())
		return nil, false
	}
	if !ok {
		refuse(w, r, http.StatusNotFound, nil, conversation.InvalidRequest("there is no such session, or it has ended; initialize a new one"))
	}
	return s, ok
}

// get opens the stream of the session that stands, or resumes one that was cut
// off.
func (t *streamable) get(w http.ResponseWriter, r *http.Request) {
	if ok, _ := accepts(r, "text/event-stream"); !ok {
		refuse(w, r, http.StatusNotAcceptable, nil, errNotAcceptable)
		return
	}
	s, ok := t.session(w, r)
	if !ok {
		return
	}
	defer t.sessions.release(s)
	ctx, stop := requestOf(r).client.Lasting(r.Context())
	defer stop()
	r = r.WithContext(ctx)
	id := r.Header.Get(headerLastID)
	if id == "" {
		// One that is open still may be a connection that broke and does not know it.
		follow(w, r, s.standing, unwritten, hello)
		return
	}
	st, number, ok := s.find(id)
	if !ok {
		// Not 404, which would say that the session is gone.
		refuse(w, r, http.StatusBadRequest, nil, conversation.InvalidRequest("what comes after event "+strconv.Quote(id)+" is not kept any more"))
		return
	}
	t.log.Debug("a client resumes a stream", zap.String("after", id))
	defer s.trim()
	follow(w, r, st, number, hello)
}
