package httpd

import (
	"net/http"
	"strconv"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
)

// delete ends the session that the client wants to end.
func (t *streamable) delete(x *exchange) {
	s, ok := t.session(x)
	if !ok {
		return
	}
	defer t.sessions.release(s)
	t.sessions.remove(s)
	x.w.WriteHeader(http.StatusNoContent)
}

// session returns the session that the request belongs to, which must be released.
// If it reports false, it has answered with an error.
func (t *streamable) session(x *exchange) (*httpSession, bool) {
	if version := x.r.Header.Get(headerVersion); version != "" && !conversation.IsLegacy(version) {
		x.refuse(http.StatusBadRequest, nil, conversation.Unsupported(version))
		return nil, false
	}
	s, ok := t.sessions.use(x.r.Header.Get(headerSession), x.backend, x.principal)
	if ok && x.revoked() { // the session is about to end
		t.sessions.release(s)
		x.refuseRevoked()
		return nil, false
	}
	if !ok {
		x.refuse(http.StatusNotFound, nil, conversation.InvalidRequest("there is no such session, or it has ended; initialize a new one"))
	}
	return s, ok
}

// get opens the stream of the session that stands, or resumes one that was cut
// off.
func (t *streamable) get(x *exchange) {
	if ok, _ := accepts(x.r, "text/event-stream"); !ok {
		x.refuse(http.StatusNotAcceptable, nil, errNotAcceptable)
		return
	}
	s, ok := t.session(x)
	if !ok {
		return
	}
	defer t.sessions.release(s)
	defer x.lasting()()
	id := x.r.Header.Get(headerLastID)
	if id == "" {
		// One that is open still may be a connection that broke and does not know it.
		follow(x, s.standing, unwritten, true, hello)
		return
	}
	st, number, ok := s.find(id)
	if !ok {
		// Not 404, which would say that the session is gone.
		x.refuse(http.StatusBadRequest, nil, conversation.InvalidRequest("what comes after event "+strconv.Quote(id)+" is not kept any more"))
		return
	}
	t.log.Debug("a client resumes a stream", zap.String("after", id))
	follow(x, st, number, true, hello)
}
