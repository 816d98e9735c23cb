package httpd

import (
	"slices"

	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
)

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
