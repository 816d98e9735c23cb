package httpd

import (
	"errors"
	"slices"
	"strconv"
	"sync"

	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
)

const (
	// maxUnread and maxUnreadMessages bound the messages that a client has not read of a
	// stream.
	maxUnread         = 64 << 20
	maxUnreadMessages = 10_000

	// maxStanding and maxStandingMessages bound the messages of the stream that
	// belongs to no request.
	maxStanding         = 1 << 20
	maxStandingMessages = 1000
)

var (
	errStreamEnded = errors.New("the stream to the client has ended")
	errStreamFull  = errors.New("the client does not read its stream, and too many messages wait there already")
)

// A stream has the messages for the response of one HTTP request; a standing stream
// has those that belong to no request. It is a [conversation.Writer] that never
// blocks: connections follow the stream, one at a time. If it has a name, a client
// that was cut off can resume it, so written messages are kept until the session
// forgets them.
type stream struct {
	name     string // "" if it can't be resumed
	standing bool

	mu      sync.Mutex // guards the fields below
	log     eventLog
	kept    func()      // called when more is kept; may be nil
	closed  bool        // no more messages
	at      *attachment // the connection that follows the stream; may be nil
	changed signal.Change
	owner   owner // of the stream; nil if it is standing or ends
	opening bool  // no connection has followed the stream yet, and the owner shall have one do that
}

// An owner is the request that a stream belongs to.
type owner interface {
	// follow has a connection follow the stream, unless the client has left: then it reports false.
	follow() bool

	// cut ends the request: its client does not read.
	cut()
}

// An attachment is a connection that follows a stream.
type attachment struct {
	end  func()        // makes the connection stop, also while it writes
	left chan struct{} // closed when it writes nothing more
}

func newStream(name string) *stream { return &stream{name: name} }

// Send implements [conversation.Writer].
func (s *stream) Send(message []byte) error {
	s.mu.Lock()
	kept, owner := s.kept, s.owner
	err := s.add(message)
	s.mu.Unlock()
	if kept != nil {
		kept()
	}
	if err == conversation.ErrUnread {
		owner.cut()
	}
	return err
}

// add appends a message. s.mu must be held.
func (s *stream) add(message []byte) error {
	log := &s.log
	s.openNow() // first: if the client has left, the sender is to know
	switch {
	case s.closed:
		return errStreamEnded
	case s.standing && !log.makeRoom(len(message)):
		if conversation.IsNotification(message) {
			return nil // the messages that wait already matter more
		}
		return errStreamFull
	case !s.standing && log.unread > 0 && (log.unread+len(message) > maxUnread || log.last-log.written >= maxUnreadMessages):
		s.drop()
		return conversation.ErrUnread
	}
	log.push(message)
	s.changed.Notify()
	return nil
}

// opens says who has a connection follow the stream at its first message.
func (s *stream) opens(o owner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owner, s.opening = o, true
}

// open has a connection follow the stream, unless one does or the stream has concluded.
func (s *stream) open() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.openNow()
}

// openNow is open. s.mu must be held.
func (s *stream) openNow() {
	if s.opening {
		if s.opening = false; !s.owner.follow() {
			s.drop()
		}
	}
}

// conclude ends the stream with the answer, or reports that it comes alone: no connection follows
// the stream, and will not. answer may be nil.
func (s *stream) conclude(answer []byte) (alone bool) {
	s.mu.Lock()
	switch alone = s.opening; {
	case alone:
		s.opening = false
		s.drop()
	case !s.closed:
		if answer != nil {
			s.log.push(answer)
		}
		s.closed = true
		s.changed.Notify()
	}
	kept := s.kept
	s.owner = nil // a session may keep the stream, and not its request
	s.mu.Unlock()
	if kept != nil {
		kept()
	}
	return alone
}

// drop ends the stream at once, and keeps nothing. s.mu must be held.
func (s *stream) drop() {
	s.closed = true
	s.log.clear()
	if s.at != nil {
		s.at.end()
		s.at = nil
	}
	s.changed.Notify()
}

// after returns the events behind the numbered one, which is the last one that was written if it is
// unwritten, and whether more may come.
func (s *stream) after(number int) (events []event, more bool, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if number == unwritten {
		number = s.log.written
	}
	return s.log.after(number), !s.closed, s.changed.Next()
}

// wrote notes that all events up to the numbered one were written.
func (s *stream) wrote(number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.log.wrote(number)
	if s.name == "" {
		s.log.forgetWritten()
	}
}

// size returns how many bytes are kept, and whether the stream is in use: more may
// come, or a connection follows it.
func (s *stream) size() (bytes int, inUse bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.size, !s.closed || s.at != nil
}

// shrink drops the events that were written, and returns how many bytes they had.
func (s *stream) shrink() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.forgetWritten()
}

// keeps reports whether all events behind the numbered one are kept.
func (s *stream) keeps(number int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.keeps(number)
}

// unwritten stands for the last event that was written.
const unwritten = -1

// attach has a connection follow the stream. If another connection follows it already,
// attach replaces it, or reports false if replace is false.
func (s *stream) attach(a *attachment, replace bool) (before *attachment, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before = s.at
	if before != nil {
		if !replace {
			return nil, false
		}
		before.end()
	}
	s.at = a
	return before, true
}

func (s *stream) detach(a *attachment) {
	close(a.left)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at == a {
		s.at = nil
	}
}

// eventID is the id with which a client resumes the stream behind an event.
func (s *stream) eventID(number int) string {
	if s.name == "" {
		return ""
	}
	return s.name + "_" + strconv.Itoa(number)
}

// An event is a message with its number on the stream, from 1 on.
type event struct {
	number  int
	message []byte
}

// An eventLog holds the events of a stream that are not forgotten yet. The zero value
// is empty; the mutex of its stream guards it.
type eventLog struct {
	events  []event // in the order of their numbers
	last    int     // number of the last event
	forgot  int     // number of the last event that is not kept any more
	written int     // number of the last event that was written
	size    int     // bytes of events
	unread  int     // bytes of the events that were not written
}

// push appends a message.
func (l *eventLog) push(message []byte) {
	l.last++
	l.events = append(l.events, event{l.last, message})
	l.size += len(message)
	l.unread += len(message)
}

// after returns the events behind the numbered one.
func (l *eventLog) after(number int) []event { return slices.Clip(l.events[l.behind(number):]) }

// behind returns the index of the first event behind the numbered one.
func (l *eventLog) behind(number int) int {
	i, _ := slices.BinarySearchFunc(l.events, number+1, func(e event, n int) int { return e.number - n })
	return i
}

// wrote notes that all events up to the numbered one were written.
func (l *eventLog) wrote(number int) {
	for i := l.behind(l.written); i < len(l.events) && l.events[i].number <= number; i++ {
		l.unread -= len(l.events[i].message)
	}
	l.written = max(l.written, number)
}

// keeps reports whether all events behind the numbered one are kept.
func (l *eventLog) keeps(number int) bool { return number >= l.forgot && number <= l.last }

// makeRoom forgets the events that were written, and then the oldest notifications,
// until so many bytes have room. It reports false if that was not enough.
func (l *eventLog) makeRoom(more int) bool {
	for len(l.events) >= maxStandingMessages || len(l.events) > 0 && l.size+more > maxStanding {
		i := 0
		if l.events[0].number > l.written {
			i = slices.IndexFunc(l.events, func(e event) bool { return conversation.IsNotification(e.message) })
		}
		if i < 0 {
			return false
		}
		l.forget(i)
	}
	return true
}

// forget drops one event.
func (l *eventLog) forget(i int) {
	e := l.events[i]
	l.size -= len(e.message)
	if e.number > l.written {
		l.unread -= len(e.message)
	}
	l.events = slices.Concat(l.events[:i], l.events[i+1:]) // a copy: a connection may be writing the old one
	l.forgot = max(l.forgot, e.number)
}

// forgetWritten drops the events that were written, and returns how many bytes they
// had.
func (l *eventLog) forgetWritten() (size int) {
	end := l.behind(l.written)
	if end == 0 {
		return 0
	}
	for _, e := range l.events[:end] {
		size += len(e.message)
	}
	l.size -= size
	l.forgot = l.events[end-1].number
	l.events = slices.Clone(l.events[end:]) // so that the old ones can be collected
	return size
}

// clear forgets all events.
func (l *eventLog) clear() {
	l.events, l.size, l.unread = nil, 0, 0
	l.forgot = l.last
}
