package peer

import "sync"

const (
	// maxOutbox bounds the bytes of the messages in an outbox, if they are more than maxQuestions: answers of clients may be
	// large. Each message counts as messageBytes more than its line.
	maxOutbox    = 16 << 20
	messageBytes = 256
)

// An outbox has the messages to a server that no caller waits for, in the order in which they are sent: answers to its
// requests, and notifications.
type outbox struct {
	mu      sync.Mutex // guards the fields below
	waiting []*Outgoing
	bytes   int
}

// add has a message sent over the session's link. A message for which there is no room is left out: the server does not
// read.
func (b *outbox) add(c *Conn, o *Outgoing) {
	b.mu.Lock()
	defer b.mu.Unlock()
	size := len(o.Line) + messageBytes
	if len(b.waiting) >= maxQuestions && b.bytes+size > maxOutbox {
		c.Budget.Note("does not read the answers to its requests, and some were left out")
		o.End()
		return
	}
	b.waiting = append(b.waiting, o)
	b.bytes += size
	if len(b.waiting) > 1 {
		o.End() // the turn of a cancellation may come late
		return
	}
	c.Go(func() { b.send(c) })
}

// send sends the messages until there are none, or the session has ended.
func (b *outbox) send(c *Conn) {
	for {
		b.mu.Lock()
		o := b.waiting[0]
		b.mu.Unlock()
		size := len(o.Line) + messageBytes // before the link adds a header
		c.link.Send(c.Context(), o)
		b.mu.Lock()
		b.waiting[0] = nil
		b.waiting, b.bytes = b.waiting[1:], b.bytes-size
		empty := len(b.waiting) == 0
		b.mu.Unlock()
		if empty || c.Cause() != nil {
			return
		}
	}
}
