package server

import (
	"bytes"
	"errors"
	"slices"
	"strconv"
	"sync"
)

const (
	// maxUnread and maxUnreadMessages bound what a client has not read of a
	// stream.
	maxUnread         = 64 << 20
	maxUnreadMessages = 10_000

	// maxStanding and maxStandingMessages bound what is kept of the stream that
	// belongs to no request.
	maxStanding         = 1 << 20
	maxStandingMessages = 1000
)

var (
	errStreamEnded = errors.New("the stream to the client has ended")
	errStreamFull  = errors.New("the client does not take up its stream, and too much waits there already")
)

// A stream is what is said to a client on the response of one HTTP request, or,
// if it stands, whatever belongs to no request. It is an [outlet] that never
// blocks: connections follow the stream, one at a time. If it has a name, a
// client that was cut off can resume it, so what was written is kept, until its
// session forgets it.
type stream struct {
	name     string // "" if it can't be resumed
	standing bool
	cut      func() // ends a request whose client does not read

	mu       sync.Mutex // guards what follows
	kept     func()     // told when more is kept; nil if nobody needs to know
	events   []event    // in order of their numbers
	last     int        // number of the last event that there was
	forgot   int        // number of the last event that is not kept any more
	written  int        // number of the last event that was written
	size     int        // bytes of events
	unread   int        // bytes of those that were not written
	closed   bool       // nothing comes any more
	answered bool       // its last event is the answer
	at       *attachment
	changed  chan struct{} // closed when there is news
}

// An event is a message with its number on the stream, from 1 on.
type event struct {
	number  int
	message []byte
}

// An attachment is a connection that follows a stream.
type attachment struct {
	over  chan struct{} // closed when it must not go on
	abort func()        // ends a write that is blocked
}

// end makes the connection stop. It must be called once at most.
func (a *attachment) end() {
	close(a.over)
	a.abort()
}

func newStream(name string) *stream {
	return &stream{name: name, changed: make(chan struct{})}
}

// send implements [outlet].
func (s *stream) send(message []byte) error {
	s.mu.Lock()
	err := s.add(message)
	kept := s.kept
	s.mu.Unlock()
	if kept != nil {
		kept()
	}
	if err == errUnread {
		s.cut()
	}
	return err
}

// add appends a message. s.mu must be held.
func (s *stream) add(message []byte) error {
	switch {
	case s.closed:
		return errStreamEnded
	case s.standing && !s.makeRoom(len(message)):
		if isNotification(message) {
			return nil // what waits already is worth more
		}
		return errStreamFull
	case !s.standing && s.unread > 0 && (s.unread+len(message) > maxUnread || s.last-s.written >= maxUnreadMessages):
		s.drop()
		return errUnread
	}
	s.push(message)
	return nil
}

// push appends a message. s.mu must be held.
func (s *stream) push(message []byte) {
	s.last++
	s.events = append(s.events, event{s.last, message})
	s.size += len(message)
	s.unread += len(message)
	s.announce()
}

// makeRoom forgets what was written of a standing stream, and then its oldest
// notifications, until so many bytes have room. It reports false if that was not
// enough. s.mu must be held.
func (s *stream) makeRoom(more int) bool {
	for len(s.events) >= maxStandingMessages || len(s.events) > 0 && s.size+more > maxStanding {
		i := 0
		if s.events[0].number > s.written {
			i = slices.IndexFunc(s.events, func(e event) bool { return isNotification(e.message) })
		}
		if i < 0 {
			return false
		}
		s.forget(i)
	}
	return true
}

// forget drops one event. s.mu must be held.
func (s *stream) forget(i int) {
	e := s.events[i]
	s.size -= len(e.message)
	if e.number > s.written {
		s.unread -= len(e.message)
	}
	s.events = slices.Concat(s.events[:i], s.events[i+1:]) // a copy: a connection may be writing the old one
	s.forgot = max(s.forgot, e.number)
}

// isNotification tells the two kinds of messages apart that we send unasked.
func isNotification(message []byte) bool {
	return bytes.HasPrefix(message, []byte(`{"jsonrpc":"2.0","method"`))
}

// finish ends the stream with the answer, which is nil if there is none.
func (s *stream) finish(answer []byte) {
	s.mu.Lock()
	if !s.closed {
		if answer != nil {
			s.push(answer)
			s.answered = true
		}
		s.closed = true
		s.announce()
	}
	kept := s.kept
	s.mu.Unlock()
	if kept != nil {
		kept()
	}
}

// drop ends the stream at once, with nothing kept. s.mu must be held.
func (s *stream) drop() {
	s.closed, s.events, s.size, s.unread = true, nil, 0, 0
	s.forgot = s.last
	if s.at != nil {
		s.at.end()
		s.at = nil
	}
	s.announce()
}

// discard ends a stream that nobody will ever follow.
func (s *stream) discard() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop()
}

// announce wakes who waits for news. s.mu must be held.
func (s *stream) announce() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// What there is to say on a stream.
const (
	silent    = iota // nothing yet
	answered         // the answer alone
	cancelled        // nothing, and it has ended
	begun            // anything else
)

// peek returns what there is to say, and the answer if it is that alone.
func (s *stream) peek() (answer []byte, state int, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.answered && s.last == 1:
		return s.events[0].message, answered, nil
	case s.last > 0:
		return nil, begun, nil
	case s.closed:
		return nil, cancelled, nil
	}
	return nil, silent, s.changed
}

// behind returns the index of the first event behind the numbered one. s.mu must
// be held.
func (s *stream) behind(number int) int {
	i, _ := slices.BinarySearchFunc(s.events, number+1, func(e event, n int) int { return e.number - n })
	return i
}

// after returns the events behind the numbered one, and whether more may come.
func (s *stream) after(number int) (events []event, more bool, changed <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clip(s.events[s.behind(number):]), !s.closed, s.changed
}

// wrote notes that all events up to the numbered one were written.
func (s *stream) wrote(number int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := s.behind(s.written); i < len(s.events) && s.events[i].number <= number; i++ {
		s.unread -= len(s.events[i].message)
	}
	s.written = max(s.written, number)
	if s.name == "" {
		s.forgetWritten()
	}
}

// forgetWritten drops the events that were written. s.mu must be held.
func (s *stream) forgetWritten() {
	end := s.behind(s.written)
	if end == 0 {
		return
	}
	for _, e := range s.events[:end] {
		s.size -= len(e.message)
	}
	s.forgot = s.events[end-1].number
	s.events = slices.Clone(s.events[end:]) // the old ones are to be collected
}

// bytes returns how much is kept.
func (s *stream) bytes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.size
}

// inUse reports whether more may come, or a connection follows the stream.
func (s *stream) inUse() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.closed || s.at != nil
}

// shrink drops what was written, and returns how many bytes that were.
func (s *stream) shrink() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.size
	s.forgetWritten()
	return before - s.size
}

// keeps reports whether all events behind the numbered one are kept.
func (s *stream) keeps(number int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return number >= s.forgot && number <= s.last
}

// unwritten stands for the last event that was written.
const unwritten = -1

// attach has a connection follow the stream from behind the numbered event, or
// from the first that was not written. One that follows it already is
// replaced if replace says so; otherwise attach reports false.
func (s *stream) attach(a *attachment, number int, replace bool) (from int, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at != nil {
		if !replace {
			return 0, false
		}
		s.at.end()
	}
	if number == unwritten {
		number = s.written
	}
	s.at = a
	return number, true
}

func (s *stream) detach(a *attachment) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.at == a {
		s.at = nil
	}
}

// eventID is by what a client resumes the stream behind an event.
func (s *stream) eventID(number int) string {
	if s.name == "" {
		return ""
	}
	return s.name + "_" + strconv.Itoa(number)
}
