package httpd

import (
	"context"
	"crypto/rand"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
	"github.com/mcp-metarouter/metarouter/server/internal/identity"
)

const (
	// maxKept bounds the bytes that are kept of one session, so that streams can be resumed,
	// maxKeptStreams the streams, and maxKeptOpen the written bytes of one that has not ended. Many sessions
	// share maxAllKept, so that none takes another one's room.
	maxKept        = 2 << 20
	maxAllKept     = 128 << 20
	maxKeptStreams = 100
	maxKeptOpen    = 128 << 10

	// retry is after how many milliseconds a client shall resume a stream that
	// was cut off.
	retry = "1000"
)

// An httpSession is a session of the legacy era.
type httpSession struct {
	id        string
	backend   *Backend             // as its client sees the router; requests for another one may not use it
	principal clientauth.Principal // who has opened it, and alone may use it
	standing  *stream              // for messages that belong to no request
	lasting   func()               // ends the waits for the end of the profiles and of the grant

	conversation *conversation.Conversation

	// Guarded by the mutex of sessions.
	busy      int // HTTP requests in flight
	idleSince time.Time
	expiry    *time.Timer   // runs while it is idle; nil before
	timeout   time.Duration // of expiry

	all *atomic.Int64 // how many sessions there are

	mu         sync.Mutex // guards the fields below
	lastStream int
	streams    []*stream // that can be resumed, the oldest first
}

var errNoRoom = &session.Error{Code: session.CodeInternal, Message: "busy: there are too many sessions, and none is idle"}

// sessions are the sessions of a handler.
type sessions struct {
	work  *work
	rules func() *rules // in force
	log   *zap.Logger

	number atomic.Int64 // of sessions
	mu     sync.Mutex   // guards byID, and the idleness of each session
	byID   map[string]*httpSession
}

// open makes a session, which is busy, unless the handler is closing. If there are too many, it ends an idle one.
func (h *sessions) open(b *Backend, g *identity.Grant) (*httpSession, error) {
	principal := g.Principal
	s := &httpSession{id: rand.Text(), backend: b, principal: principal, busy: 1, standing: newStream("0"), all: &h.number}
	s.standing.standing = true
	most := h.rules().MaxSessions
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.work.calls.Cause() != nil {
		return nil, conversation.ErrClosed
	}
	if len(h.byID) >= most {
		idle := h.longestIdle(principal)
		if idle == nil {
			return nil, errNoRoom
		}
		h.drop(idle)
	}
	s.conversation = b.Clients.Open(nil, s.standing, conversation.HTTP, g.Identity())
	h.byID[s.id] = s
	h.number.Add(1)
	unretire := context.AfterFunc(b.Retired, func() { h.remove(s) })
	unrevoke := context.AfterFunc(g.Context, func() { h.remove(s) })
	s.lasting = func() { unretire(); unrevoke() }
	return s, nil
}

// longestIdle returns the session that is idle for the longest, one of the
// principal's own if there is any; nil if all are busy. h.mu must be held.
func (h *sessions) longestIdle(principal clientauth.Principal) (idle *httpSession) {
	for _, s := range h.byID {
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
func (h *sessions) use(id string, b *Backend, principal clientauth.Principal) (s *httpSession, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s = h.byID[id]
	if s == nil || s.backend != b || s.principal != principal {
		return nil, false
	}
	s.busy++
	return s, true
}

// release undoes use. The timer of the session goes on while the session is busy, and does nothing then.
func (h *sessions) release(s *httpSession) {
	timeout := h.rules().SessionTimeout // after which an idle session ends
	h.mu.Lock()
	defer h.mu.Unlock()
	s.busy--
	if s.busy > 0 || h.byID[s.id] != s {
		return
	}
	s.idleSince, s.timeout = time.Now(), timeout
	if s.expiry == nil {
		s.expiry = time.AfterFunc(timeout, func() { h.expire(s) })
		return
	}
	s.expiry.Reset(timeout)
}

// expire ends a session that was idle for its time.
func (h *sessions) expire(s *httpSession) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.busy == 0 && time.Since(s.idleSince) >= s.timeout {
		h.log.Debug("a session has ended for being idle")
		h.drop(s)
	}
}

// remove ends a session, unless it has ended.
func (h *sessions) remove(s *httpSession) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.drop(s)
}

// removeAll ends all sessions.
func (h *sessions) removeAll() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, s := range h.byID {
		h.drop(s)
	}
}

// drop is remove. h.mu must be held.
func (h *sessions) drop(s *httpSession) {
	if h.byID[s.id] != s {
		return
	}
	delete(h.byID, s.id)
	h.number.Add(-1)
	s.lasting()
	if s.expiry != nil {
		s.expiry.Stop()
	}
	h.work.running.Go(func() {
		s.conversation.Close()
		s.standing.conclude(nil)
	})
}

// newStream returns the stream of a request.
func (s *httpSession) newStream() *stream {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lastStream++
	return newStream(strconv.Itoa(s.lastStream))
}

// keep has a stream be kept, for the client to resume.
func (s *httpSession) keep(st *stream) {
	s.mu.Lock()
	s.streams = append(s.streams, st)
	s.mu.Unlock()
	s.trim()
}

// trim forgets streams above the bounds, the oldest first, but none that a call or a connection uses.
func (s *httpSession) trim() {
	s.mu.Lock()
	defer s.mu.Unlock()
	room, number := min(maxKept, maxAllKept/int(max(s.all.Load(), 1))), 0
	for i, st := range slices.Backward(s.streams) {
		size, inUse := st.size()
		if !inUse && (size > room || number >= maxKeptStreams) {
			s.streams = slices.Delete(s.streams, i, i+1)
			continue
		}
		room -= size
		number++
	}
}

// find returns the stream that an event belongs to, and the event's number. It
// reports false if it is not known, or events behind it are not kept any more.
func (s *httpSession) find(eventID string) (st *stream, number int, ok bool) {
	name, n, _ := strings.Cut(eventID, "_")
	number, err := strconv.Atoi(n)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, st := range append(slices.Clip(s.streams), s.standing) {
		if st.name == name && err == nil {
			return st, number, st.keeps(number)
		}
	}
	return nil, 0, false
}
