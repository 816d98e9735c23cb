package server

import (
	"io"
	"sync"
)

// maxQueued and maxQueuedBytes bound what waits to be written to one client.
const (
	maxQueued      = 10_000
	maxQueuedBytes = 64 << 20

	// maxTogether bounds the messages that are written as one piece, in bytes.
	maxTogether = 32 << 10
)

// A queue writes messages in the order in which they are sent. Whoever sends an
// answer writes it, and what others have sent meanwhile, short messages together;
// notifications come from goroutines that must never wait for a client, which
// leave the writing to another one.
type queue struct {
	out    io.Writer
	failed func(error) // told when out fails, once

	mu       sync.Mutex // guards what follows
	changed  sync.Cond  // signalled when the queue gets shorter or ends
	waiting  [][]byte
	size     int    // bytes of waiting
	writing  bool   // someone is
	together []byte // of whoever writes
	err      error
}

func newQueue(out io.Writer, failed func(error)) *queue {
	q := &queue{out: out, failed: failed}
	q.changed.L = &q.mu
	return q
}

// send has a message written. When too much waits already, a notification is
// lost, and anything else waits. It fails if out did, or the queue was closed.
func (q *queue) send(message []byte) error {
	patient := !isNotification(message)
	q.mu.Lock()
	for q.err == nil && q.full(len(message)) {
		if !patient {
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
	write := !q.writing
	q.writing = true
	q.mu.Unlock()
	switch {
	case write && patient:
		q.write()
	case write:
		go q.write() // close waits for it
	}
	return nil
}

// full reports whether there is no room for a message. q.mu must be held.
func (q *queue) full(size int) bool {
	return len(q.waiting) >= maxQueued || q.size > 0 && q.size+size > maxQueuedBytes
}

// write writes what waits, until nothing does.
func (q *queue) write() {
	if err := q.drain(); err != nil {
		q.failed(err)
	}
}

func (q *queue) drain() (err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.err == nil && len(q.waiting) > 0 {
		next := q.next()
		q.mu.Unlock()
		_, err = q.out.Write(next)
		q.mu.Lock()
		if err != nil {
			q.stop(err)
		}
		q.changed.Broadcast()
	}
	q.writing = false
	q.changed.Broadcast()
	return err
}

// next takes what is to be written at once: a message, or several as one piece,
// as far as they are short. q.mu must be held.
func (q *queue) next() []byte {
	size, n := 0, 0
	for n < len(q.waiting) && (n == 0 || size+len(q.waiting[n]) <= maxTogether) {
		size += len(q.waiting[n])
		n++
	}
	next := q.waiting[0]
	if n > 1 {
		q.together = q.together[:0]
		for _, message := range q.waiting[:n] {
			q.together = append(q.together, message...)
		}
		next = q.together
	}
	clear(q.waiting[:n])
	q.waiting = q.waiting[n:]
	q.size -= size
	return next
}

// stop ends the queue. q.mu must be held.
func (q *queue) stop(err error) {
	q.err, q.waiting, q.size = err, nil, 0
	q.changed.Broadcast()
}

// fail has all that send or will give up. A Write that does not return is
// abandoned.
func (q *queue) fail(err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.stop(err)
}

// close waits until all is written, and takes no more.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.writing {
		q.changed.Wait()
	}
	q.stop(io.ErrClosedPipe)
}
