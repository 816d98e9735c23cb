package stream

import (
	"context"
	"errors"
	"hash"
	"net"
	"os"
	"sync"
	"time"
)

// A raw is the connection under TLS. TLS makes one call of Write and one of Read at a time.
type raw struct {
	ends
	waiters
	endpoint *Endpoint
	name     string // of the stream, with the peer's key before it
	to, from string // subjects
	dialed   bool   // this end opened the stream

	out    sync.Mutex // guards the following, and is held while a frame is sent
	seal   hash.Hash  // of frames to the peer; nil during the handshake
	seq    uint64     // of the next frame to the peer
	buffer []byte

	mu           sync.Mutex // guards the following; never held while a frame is sent
	clock        clock
	verify       hash.Hash // of the peer's frames; nil during the handshake
	next         uint64    // sequence number of the peer's next frame
	held         [][]byte  // frames with a MAC that came during the handshake
	accepted     bool      // no frame without a MAC counts any more
	closing      bool      // TLS's last record does not wait
	err          error     // why the stream ended
	inbox        inbox
	wrote, taken uint64 // cost of our data frames, and of those that the peer read
}

// Read implements [net.Conn].
func (r *raw) Read(p []byte) (int, error) {
	r.mu.Lock()
	for len(r.inbox.queue) == 0 && r.err == nil && !r.reader.expired() {
		r.reader.Wait()
	}
	switch {
	case r.reader.expired():
		r.mu.Unlock()
		return 0, os.ErrDeadlineExceeded
	case len(r.inbox.queue) == 0:
		defer r.mu.Unlock()
		return 0, r.err
	}
	n, read, due := r.inbox.get(p)
	due = due && r.verify != nil && r.err == nil
	if due {
		r.inbox.acked = read
	}
	r.mu.Unlock()
	if due {
		r.send(ack, number(read))
	}
	return n, nil
}

// Write implements [net.Conn].
func (r *raw) Write(b []byte) (n int, err error) {
	for n < len(b) {
		chunk := b[n:min(len(b), n+r.endpoint.chunk())]
		if err := r.reserve(len(chunk)); err != nil {
			return n, err
		}
		if err := r.send(data, chunk); err != nil {
			return n, err
		}
		n += len(chunk)
	}
	return n, nil
}

// reserve waits until the window has room.
func (r *raw) reserve(size int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	cost := uint64(size + frameCost)
	full := func() bool { return r.wrote-r.taken+cost > window && !(r.closing && size <= frameCost) }
	for r.err == nil && !r.writer.expired() && full() {
		r.writer.Wait()
	}
	switch {
	case r.err != nil:
		return r.err
	case r.writer.expired():
		return os.ErrDeadlineExceeded
	}
	r.wrote += cost
	return nil
}

// send sends a frame.
func (r *raw) send(k kind, body []byte) error {
	r.out.Lock()
	defer r.out.Unlock()
	r.mu.Lock()
	sent := r.clock.sending(k, r.seq, time.Now())
	r.mu.Unlock()
	r.buffer = appendFrame(r.buffer[:0], r.seal, frame{kind: k, seq: r.seq, sent: sent, body: body})
	r.seq++
	reply := ""
	if k == open || k == ping {
		reply = r.from // NATS says there that the peer does not subscribe
	}
	if err := r.endpoint.publish(r.to, reply, r.buffer); err != nil {
		r.end(err)
		return err
	}
	return nil
}

// end ends the stream, and notifies the peer. The first reason counts.
func (r *raw) end(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return
	}
	r.err, r.held = err, nil
	if errors.Is(err, net.ErrClosed) || errors.Is(err, ErrUntrusted) {
		r.inbox.queue = nil
	}
	r.reader.Broadcast()
	r.writer.Broadcast()
	r.endpoint.mu.Lock()
	delete(r.endpoint.streams, r.name)
	r.endpoint.mu.Unlock()
	r.endpoint.later(func() { r.send(closed, reason(err)) })
}

// await waits until done, which the lock guards, or until the stream or ctx ends.
func (r *raw) await(ctx context.Context, done func() bool) error {
	stop := context.AfterFunc(ctx, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.reader.Broadcast()
	})
	defer stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.err == nil && ctx.Err() == nil && !done() {
		r.reader.Wait()
	}
	switch {
	case done(): // even if the stream has ended since
		return nil
	case r.err != nil:
		return r.err
	}
	return ctx.Err()
}

// Close implements [net.Conn].
func (r *raw) Close() error {
	r.end(net.ErrClosed)
	r.SetDeadline(time.Time{})
	return nil
}
