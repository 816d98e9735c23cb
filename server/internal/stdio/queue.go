package stdio

import (
	"io"
	"sync"
	"sync/atomic"

	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
)

// maxQueued and maxQueuedBytes bound the messages that wait to be written to one client.
const (
	maxQueued      = 10_000
	maxQueuedBytes = 64 << 20

	// maxTogether bounds the messages that are written as one piece, in bytes.
	maxTogether = 32 << 10
)

// A queue writes messages in the order in which they are sent. The goroutine that
// sends an answer writes it, and the messages that others have sent meanwhile, short messages
// together. Those that send notifications and the one that reads leave the writing to
// another goroutine, since a write waits for the client.
type queue struct {
	out     io.Writer
	failed  func(error)  // called when out fails, once
	written atomic.Int64 // writes that are done

	mu       sync.Mutex // guards the fields below
	changed  sync.Cond  // signalled when the queue gets shorter or ends
	waiting  [][]byte
	size     int    // bytes of waiting
	writing  bool   // a goroutine writes
	together []byte // buffer of the goroutine that writes
	err      error
}

func newQueue(out io.Writer, failed func(error)) *queue {
	q := &queue{out: out, failed: failed}
	q.changed.L = &q.mu
	return q
}

// send has a message written. If too much waits already, a notification is lost, and any
// other message waits. send fails if out failed, or the queue was closed.
func (q *queue) send(message []byte) error {
	return q.put(message, !conversation.IsNotification(message))
}

// put has a message written. If a goroutine writes already, it writes this message too,
// and put returns at once; else the caller begins to write if it may, or a new goroutine.
//
// The wait for room has no time limit: it lasts while the client does not read, and ends
// when Serve ends, which waits no longer than stuck for such a client. Only answers to
// this client and questions to it wait; a call that asks has released its permit.
func (q *queue) put(message []byte, mayWrite bool) error {
	q.mu.Lock()
	for q.err == nil && q.full(len(message)) {
		if conversation.IsNotification(message) {
			q.mu.Unlock()
			return nil
		}
		q.changed.Wait()
	}
	if q.err != nil {
		defer q.mu.Unlock()
		return q.err
	}
	q.waiting = append(q.waiting, message)
	q.size += len(message)
	idle := !q.writing
	q.writing = true
	q.mu.Unlock()
	switch {
	case idle && mayWrite:
		q.write()
	case idle:
		go q.write() // close waits for it
	}
	return nil
}

// full reports whether there is no room for a message. q.mu must be held.
func (q *queue) full(size int) bool {
	return len(q.waiting) >= maxQueued || q.size > 0 && q.size+size > maxQueuedBytes
}

// write writes the messages that wait, until the queue is empty.
func (q *queue) write() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.err == nil && len(q.waiting) > 0 {
		next := q.next()
		q.mu.Unlock()
		_, err := q.out.Write(next)
		q.written.Add(1)
		q.mu.Lock()
		if err != nil {
			q.failed(err)
			q.stop(err)
		}
		q.changed.Broadcast()
	}
	q.writing = false
	q.changed.Broadcast()
}

// next takes the bytes that are to be written at once: one message, or several short ones as one
// piece of at most maxTogether bytes. q.mu must be held.
func (q *queue) next() (piece []byte) {
	size, n := 0, 0
	for n < len(q.waiting) && (n == 0 || size+len(q.waiting[n]) <= maxTogether) {
		size += len(q.waiting[n])
		n++
	}
	piece = q.waiting[0]
	if n > 1 {
		q.together = q.together[:0]
		for _, next := range q.waiting[:n] {
			q.together = append(q.together, next...)
		}
		piece = q.together
	}
	clear(q.waiting[:n])
	q.waiting = q.waiting[n:]
	q.size -= size
	return piece
}

// stop ends the queue. q.mu must be held.
func (q *queue) stop(err error) {
	q.err, q.waiting, q.size = err, nil, 0
	q.changed.Broadcast()
}

// fail makes all calls of send give up. A Write that does not return is abandoned.
func (q *queue) fail(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stop(err)
}

// close waits until everything is written, and takes no more messages.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.writing {
		q.changed.Wait()
	}
	q.stop(io.ErrClosedPipe)
}
