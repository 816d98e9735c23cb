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
// that was cut off can resume it, so the last written messages are kept.
type stream struct {
	name     string // "" if it can't be resumed
	standing bool

	mu      sync.Mutex // guards the fields below
	log     eventLog
	closed  bool        // no more messages
	at      *attachment // the connection that follows the stream; may be nil
	changed signal.Change
	reply   *reply // that the stream is for; nil if it is standing or ends
	opening bool   // no connection has followed the stream yet, and the reply shall have one do that
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
	reply := s.reply
	err := s.add(message)
	s.mu.Unlock()
	if err == conversation.ErrUnread {
		reply.cut()
	}
	return err
}

// add appends a message. s.mu must be held.
func (s *stream) add(message []byte) error {
	s.openNow() // first: if the client has left, the sender is to know
	switch {
	case s.closed:
		return errStreamEnded
	case s.standing && !s.log.makeRoom(len(message)):
		if conversation.IsNotification(message) {
			return nil // the questions that wait already matter more
		}
		return errStreamFull
	case !s.standing && s.log.isFull(len(message), maxUnread, maxUnreadMessages):
		s.drop()
		return conversation.ErrUnread
	}
	s.log.push(message)
	s.changed.Notify()
	return nil
}

// opens has the reply let a connection follow the stream at its first message.
func (s *stream) opens(p *reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reply, s.opening = p, true
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
		if s.opening = false; !s.reply.follow() {
			s.drop()
		}
	}
}

// conclude ends the stream with the answer, or reports that it comes alone: no connection follows
// the stream, and will not. answer may be nil.
func (s *stream) conclude(answer []byte) (alone bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
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
	s.reply = nil // a session may keep the stream, and not its request
	return alone
}

// drop ends the stream at once, and keeps nothing. s.mu must be held.
func (s *stream) drop() {
	s.closed = true
	s.log = eventLog{forgot: s.log.last(), written: s.log.last()}
	if s.at != nil {
		s.at.end()
		s.at = nil
	}
	s.changed.Notify()
}

// after returns the messages behind the numbered event, which is the last one that was written if it is
// unwritten, with the number of the first, and whether more may come.
func (s *stream) after(number int) (messages [][]byte, first int, more bool, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if number == unwritten {
		number = s.log.written
	}
	number = max(number, s.log.forgot) // a stream that was dropped has nothing any more
	return slices.Clip(s.log.messages[number-s.log.forgot:]), number + 1, !s.closed, s.changed.Next()
}

// wrote notes that all events up to the numbered one were written.
func (s *stream) wrote(number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	keep := maxKeptOpen
	switch {
	case s.name == "":
		keep = 0
	case s.closed: // it ends with the answer
		keep = maxKept
	}
	s.log.wrote(number, keep)
}

// size returns how many bytes are kept, and whether the stream is in use: more may
// come, or a connection follows it.
func (s *stream) size() (bytes int, inUse bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.kept + s.log.unread, !s.closed || s.at != nil
}

// keeps reports whether all events behind the numbered one are kept.
func (s *stream) keeps(number int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return number >= s.log.forgot && number <= s.log.last()
}

// unwritten stands for the last event that was written.
const unwritten = -1

// attach has a connection follow the stream, in place of the one that has followed it before; nil if none has.
func (s *stream) attach(a *attachment) (before *attachment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if before = s.at; before != nil {
		before.end()
	}
	s.at = a
	return before
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

// An eventLog holds the messages of a stream that are not forgotten yet. Each is an event, with a number from 1 on. The zero value
// is empty; the mutex of its stream guards it.
type eventLog struct {
	messages [][]byte // of the events behind forgot
	forgot   int      // number of the last event that is not kept any more
	written  int      // number of the last event that was written
	kept     int      // bytes of the events that were written
	unread   int      // bytes of the others
}

// last returns the number of the last event.
func (l *eventLog) last() int { return l.forgot + len(l.messages) }

// isFull reports whether a message of the size exceeds the bounds of those that were not written.
func (l *eventLog) isFull(size, bytes, messages int) bool {
	return l.unread > 0 && (l.unread+size > bytes || l.last()-l.written >= messages)
}

// makeRoom forgets the oldest messages of a standing stream until so many bytes have room. It reports false if a question is the oldest that
// was not written.
func (l *eventLog) makeRoom(more int) bool {
	for l.isFull(more, maxStanding, maxStandingMessages) {
		if !conversation.IsNotification(l.messages[l.written-l.forgot]) {
			return false
		}
		l.wrote(l.written+1, 0)
	}
	return true
}

// push appends a message.
func (l *eventLog) push(message []byte) {
	l.messages = append(l.messages, message)
	l.unread += len(message)
}

// wrote notes that all events up to the numbered one were written. Of those, it keeps so many bytes.
func (l *eventLog) wrote(number, keep int) {
	for ; l.written < min(number, l.last()); l.written++ {
		size := len(l.messages[l.written-l.forgot])
		l.unread -= size
		l.kept += size
	}
	old := 0
	for ; l.kept > keep; old++ {
		l.kept -= len(l.messages[old])
	}
	if old > 0 {
		l.messages = slices.Clone(l.messages[old:]) // so that the old ones can be collected
		l.forgot += old
	}
}
