package stream

import (
	"errors"
	"net"
	"sync"
	"time"
)

// A waiter waits for a change of a stream, until a deadline.
type waiter struct {
	sync.Cond
	deadline time.Time
	timer    *time.Timer
}

func (w *waiter) set(t time.Time) error {
	w.L.Lock()
	defer w.L.Unlock()
	if w.timer != nil {
		w.timer.Stop()
	}
	w.deadline, w.timer = t, nil
	if !t.IsZero() {
		w.timer = time.AfterFunc(time.Until(t), w.wake)
	}
	w.Broadcast()
	return nil
}

func (w *waiter) wake() {
	w.L.Lock()
	defer w.L.Unlock()
	w.Broadcast()
}

func (w *waiter) expired() bool { return !w.deadline.IsZero() && !time.Now().Before(w.deadline) }

// waiters implement the deadlines of [net.Conn].
type waiters struct{ reader, writer waiter }

// SetDeadline implements [net.Conn].
func (w *waiters) SetDeadline(t time.Time) error {
	return errors.Join(w.reader.set(t), w.writer.set(t))
}

// SetReadDeadline implements [net.Conn].
func (w *waiters) SetReadDeadline(t time.Time) error { return w.reader.set(t) }

// SetWriteDeadline implements [net.Conn].
func (w *waiters) SetWriteDeadline(t time.Time) error { return w.writer.set(t) }

// ends implement the addresses of [net.Conn].
type ends struct{ self, peer Address }

// LocalAddr implements [net.Conn].
func (e ends) LocalAddr() net.Addr { return e.self }

// RemoteAddr implements [net.Conn].
func (e ends) RemoteAddr() net.Addr { return e.peer }

// An inbox has the bytes of a stream that are not read yet.
type inbox struct {
	queue          [][]byte // bodies of data frames; the first may be read in part
	first          int      // size of the first body when it came; 0 if it was not read
	received, read uint64   // cost of all data frames, and of those that were read
	acked          uint64   // of read, as the peer was notified
}

// put adds the body of a data frame.
func (i *inbox) put(body []byte) error {
	i.received += uint64(len(body) + frameCost)
	if i.received-i.read > window+windowSlack || len(body) == 0 {
		return ErrProtocol
	}
	i.queue = append(i.queue, body)
	return nil
}

// get copies bytes of the first frame, and returns the cost of all frames that were read, and
// whether the peer needs to know it.
func (i *inbox) get(p []byte) (n int, read uint64, due bool) {
	if i.first == 0 {
		i.first = len(i.queue[0])
	}
	n = copy(p, i.queue[0])
	if i.queue[0] = i.queue[0][n:]; len(i.queue[0]) == 0 {
		i.read += uint64(i.first + frameCost)
		i.queue[0], i.queue, i.first = nil, i.queue[1:], 0
	}
	return n, i.read, i.read-i.acked >= window/4
}
