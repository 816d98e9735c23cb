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
// notifications come from goroutines that must never wait for a client, and answers
// also from the one that reads what the client sends: these leave the writing to
// another one.
type queue struct {
	out     io.Writer
	journal *Journal    // told of what is written; nil if there is none
	failed  func(error) // told when out fails, once

	mu       sync.Mutex // guards what follows
	changed  sync.Cond  // signalled when the queue gets shorter or ends
	waiting  []outgoing
	size     int    // bytes of waiting
	writing  bool   // someone is
	together []byte // of whoever writes
	slots    []int  // likewise
	err      error
}

// An outgoing message ends the request in a slot of the journal when it is
// written, if that is a slot, and those in further ones.
type outgoing struct {
	message []byte
	slot    int
	more    []int
}

func newQueue(out io.Writer, j *Journal, failed func(error)) *queue {
	q := &queue{out: out, journal: j, failed: failed}
	q.changed.L = &q.mu
	return q
}

// send has a message written. When too much waits already, a notification is
// lost, and anything else waits. It fails if out did, or the queue was closed.
func (q *queue) send(message []byte) error {
	patient := !isNotification(message)
	return q.put(outgoing{message, noSlot, nil}, patient, patient)
}

// answer is send for the answer to a request that has a slot in the journal. The
// caller writes unless it has something better to do.
func (q *queue) answer(message []byte, slot int, write bool) error {
	return q.put(outgoing{message, slot, nil}, true, write)
}

// put has a message written: by the caller or by another goroutine. One that is
// not patient may be lost.
func (q *queue) put(o outgoing, patient, write bool) error {
	q.mu.Lock()
	for q.err == nil && q.full(len(o.message)) {
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
	q.waiting = append(q.waiting, o)
	q.size += len(o.message)
	idle := !q.writing
	q.writing = true
	q.mu.Unlock()
	switch {
	case idle && write:
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
		next, slots := q.next()
		q.mu.Unlock()
		q.journal.writing(len(next))
		if _, err = q.out.Write(next); err == nil { // else another router is to answer
			q.journal.wrote(slots)
		}
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
// as far as they are short. The slots are valid until the next call. q.mu must be
// held.
func (q *queue) next() (piece []byte, slots []int) {
	size, n := 0, 0
	q.slots = q.slots[:0]
	for n < len(q.waiting) && (n == 0 || size+len(q.waiting[n].message) <= maxTogether) {
		size += len(q.waiting[n].message)
		q.slots = append(append(q.slots, q.waiting[n].slot), q.waiting[n].more...)
		n++
	}
	piece = q.waiting[0].message
	if n > 1 {
		q.together = q.together[:0]
		for _, next := range q.waiting[:n] {
			q.together = append(q.together, next.message...)
		}
		piece = q.together
	}
	clear(q.waiting[:n])
	q.waiting = q.waiting[n:]
	q.size -= size
	return piece, q.slots
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
