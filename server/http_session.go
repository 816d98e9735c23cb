package server

import (
	"crypto/rand"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/session"
)

const (
	// maxKept bounds the bytes of events that are kept of one session, so that
	// streams can be resumed, and maxKeptStreams the streams.
	maxKept        = 2 << 20
	maxKeptStreams = 100

	// retry is after how many milliseconds a client shall resume a stream that
	// was cut off.
	retry = "1000"
)

// An httpSession is a session of the legacy era over HTTP.
type httpSession struct {
	id        string
	principal string // who has opened it; nobody else may use it
	talk      *conversation
	standing  *stream // what belongs to no request

	// Guarded by the mutex of its handler.
	busy      int // HTTP requests and requests in flight
	idleSince time.Time
	expiry    *time.Timer // while it is idle

	mu         sync.Mutex // guards what follows
	lastStream int
	streams    []*stream // that can be resumed, the oldest first
}

var errNoRoom = &session.Error{Code: session.CodeInternal, Message: "busy: there are too many sessions, and none is idle"}

// open makes a session, which is busy. If there are too many, it takes the place
// of an idle one.
func (h *Handler) open(principal string) (*httpSession, error) {
	s := &httpSession{id: rand.Text(), principal: principal, busy: 1, standing: newStream("0")}
	s.standing.standing = true
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closing {
		return nil, errClosed
	}
	if len(h.sessions) >= h.opts.MaxSessions {
		idle := h.longestIdle(principal)
		if idle == nil {
			return nil, errNoRoom
		}
		h.remove(idle)
	}
	s.talk = h.server.converse(s.standing)
	s.talk.principal = principal
	h.sessions[s.id] = s
	return s, nil
}

// longestIdle returns the session that is idle for the longest, one of the
// principal's own if there is any; nil if none is idle. h.mu must be held.
func (h *Handler) longestIdle(principal string) (idle *httpSession) {
	for _, s := range h.sessions {
		if s.busy > 0 {
			continue
		}
		own := s.principal == principal
		if idle == nil || own && idle.principal != principal ||
			own == (idle.principal == principal) && s.idleSince.Before(idle.idleSince) {
			idle = s
		}
	}
	return idle
}

// use returns the session, which is then busy.
func (h *Handler) use(id, principal string) (s *httpSession, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s = h.sessions[id]
	if s == nil || s.principal != principal {
		return nil, false
	}
	h.occupy(s)
	return s, true
}

// occupy keeps a session from being idle. h.mu must be held.
func (h *Handler) occupy(s *httpSession) {
	s.busy++
	if s.expiry != nil {
		s.expiry.Stop()
		s.expiry = nil
	}
}

// release lets a session be idle, unless there are others that use it.
func (h *Handler) release(s *httpSession) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s.busy--
	if s.busy > 0 || h.sessions[s.id] != s {
		return
	}
	s.idleSince = time.Now()
	s.expiry = time.AfterFunc(h.opts.SessionTimeout, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if s.busy == 0 && time.Since(s.idleSince) >= h.opts.SessionTimeout {
			h.log.Debug("a session has ended for being idle")
			h.remove(s)
		}
	})
}

// remove ends a session, unless it has ended. h.mu must be held.
func (h *Handler) remove(s *httpSession) {
	if h.sessions[s.id] != s {
		return
	}
	delete(h.sessions, s.id)
	if s.expiry != nil {
		s.expiry.Stop()
	}
	h.running.Go(func() {
		s.talk.close()
		s.standing.finish(nil)
	})
}

// delete ends the session at the client's wish.
func (x *exchange) delete() {
	s, ok := x.session()
	if !ok {
		return
	}
	defer x.h.release(s)
	x.h.mu.Lock()
	x.h.remove(s)
	x.h.mu.Unlock()
	x.w.WriteHeader(http.StatusNoContent)
}

// session returns the session that the request belongs to, which must be
// released. When it reports false, that there is none was said.
func (x *exchange) session() (*httpSession, bool) {
	if version := x.r.Header.Get(headerVersion); version != "" && !slices.Contains(legacyRevisions, version) {
		x.refuse(http.StatusBadRequest, nil, unsupported(version))
		return nil, false
	}
	s, ok := x.h.use(x.r.Header.Get(headerSession), x.principal)
	if !ok {
		x.refuse(http.StatusNotFound, nil, invalidRequest("there is no such session, or it has ended; initialize a new one"))
	}
	return s, ok
}

// newStream returns the stream of a request.
func (s *httpSession) newStream() *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastStream++
	return newStream(strconv.Itoa(s.lastStream))
}

// keep has a stream be kept from now on, for the client to resume.
func (s *httpSession) keep(st *stream) {
	st.mu.Lock()
	st.kept = s.trim
	st.mu.Unlock()
	s.mu.Lock()
	s.streams = append(s.streams, st)
	s.mu.Unlock()
	s.trim()
}

// trim forgets what is too much to keep: the oldest streams that have ended and
// that nobody follows, and then what was written of the others.
func (s *httpSession) trim() {
	s.mu.Lock()
	defer s.mu.Unlock()
	size, number := 0, len(s.streams)
	for _, st := range s.streams {
		size += st.bytes()
	}
	s.streams = slices.DeleteFunc(s.streams, func(st *stream) bool {
		if size <= maxKept && number <= maxKeptStreams || st.inUse() {
			return false
		}
		size -= st.bytes()
		number--
		return true
	})
	for _, st := range s.streams {
		if size <= maxKept {
			return
		}
		size -= st.shrink()
	}
}

// find returns the stream that an event belongs to, and the event's number. It
// reports false if it is not known, or events behind it are not kept any more.
func (s *httpSession) find(eventID string) (st *stream, number int, ok bool) {
	name, n, _ := strings.Cut(eventID, "_")
	number, err := strconv.Atoi(n)
	if err != nil {
		return nil, 0, false
	}
	if name == s.standing.name {
		return s.standing, number, s.standing.keeps(number)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.streams, func(st *stream) bool { return st.name == name })
	if i < 0 {
		return nil, 0, false
	}
	return s.streams[i], number, s.streams[i].keeps(number)
}

// get opens the stream of the session that stands, or resumes one that was cut
// off.
func (x *exchange) get() {
	if ok, _ := x.accepts("text/event-stream"); !ok {
		x.refuse(http.StatusNotAcceptable, nil, errNotAcceptable)
		return
	}
	s, ok := x.session()
	if !ok {
		return
	}
	defer x.h.release(s)
	id := x.r.Header.Get(headerLastID)
	if id == "" {
		// One that is open still may be a connection that broke and does not know it.
		x.follow(s.standing, unwritten, true, x.hello)
		return
	}
	st, number, ok := s.find(id)
	if !ok {
		// Not 404, which would say that the session is gone.
		x.refuse(http.StatusBadRequest, nil, invalidRequest("what comes after event "+strconv.Quote(id)+" is not kept any more"))
		return
	}
	x.h.log.Debug("a client resumes a stream", zap.String("after", id))
	x.follow(st, number, true, x.hello)
}
