package httpd

import (
	"net/http"
	"strconv"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
)

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
	s, ok := t.sessions.use(r.Header.Get(headerSession), q.backend, q.client.principal)
	if ok && q.revoked() { // the session is about to end
		t.sessions.release(s)
		refuseRevoked(w, r)
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
	r, stop := lasting(r)
	defer stop()
	id := r.Header.Get(headerLastID)
	if id == "" {
		// One that is open still may be a connection that broke and does not know it.
		follow(w, r, s.standing, unwritten, true, hello)
		return
	}
	st, number, ok := s.find(id)
	if !ok {
		// Not 404, which would say that the session is gone.
		refuse(w, r, http.StatusBadRequest, nil, conversation.InvalidRequest("what comes after event "+strconv.Quote(id)+" is not kept any more"))
		return
	}
	t.log.Debug("a client resumes a stream", zap.String("after", id))
	follow(w, r, st, number, true, hello)
}
