package stream

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"time"
)

// receive takes a frame of the peer's subject. It does not wait.
func (r *raw) receive(b []byte) {
	r.mu.Lock()
	err := r.take(b, time.Now())
	r.mu.Unlock()
	if err != nil {
		r.end(err)
	}
}

// take takes a frame, and returns why the stream has to end. Frames of outsiders, and frames that
// outsiders repeat, are dropped.
func (r *raw) take(b []byte, now time.Time) error {
	f, ok := parse(b)
	switch {
	case !ok || r.err != nil:
		return nil
	case !f.sealed:
		return r.takeEarly(f, now)
	case r.verify == nil:
		if len(r.held) < maxHeld {
			r.held = append(r.held, b)
		}
		return nil
	case f.seq < r.next || !verified(r.verify, b):
		return nil
	case f.seq > r.next:
		return ErrLost
	}
	r.next++
	r.clock.receiving(f.sent, now)
	return r.handle(f, now)
}

// takeEarly takes a frame without a MAC, as the handshake has. A wrong one can only make that fail.
func (r *raw) takeEarly(f frame, now time.Time) error {
	switch {
	case r.accepted:
		return nil
	case f.kind == closed:
		return reasonOf(f.body)
	case f.kind != data || r.verify != nil || f.seq < r.next:
		return nil
	case f.seq > r.next:
		return ErrLost
	}
	r.next++
	r.clock.heard = now
	r.reader.Broadcast()
	return r.inbox.put(f.body)
}

// handle does what an authentic frame says.
func (r *raw) handle(f frame, now time.Time) error {
	defer r.reader.Broadcast()
	switch f.kind {
	case data:
		return r.inbox.put(f.body)
	case ack:
		if len(f.body) != 8 {
			return ErrProtocol
		}
		taken := binary.BigEndian.Uint64(f.body)
		if taken < r.taken || taken > r.wrote {
			return ErrProtocol
		}
		r.taken = taken
		r.writer.Broadcast()
	case ping:
		r.endpoint.later(func() {
			r.send(pong, append(number(f.seq), number(uint64(time.Now().UnixNano()))...))
		})
	case pong:
		if len(f.body) != 16 {
			return ErrProtocol
		}
		r.clock.answered(binary.BigEndian.Uint64(f.body), int64(binary.BigEndian.Uint64(f.body[8:])), now)
	case accept:
		r.accepted = true
	case closed:
		return reasonOf(f.body)
	default:
		return ErrProtocol
	}
	return nil
}

// secure begins to use MACs. The keys are of the dialer's frames and of the acceptor's.
func (r *raw) secure(dialer, acceptor []byte) {
	own, other := dialer, acceptor
	if !r.dialed {
		own, other = acceptor, dialer
	}
	r.out.Lock()
	r.seal = hmac.New(sha256.New, own)
	r.out.Unlock()

	r.mu.Lock()
	r.verify, r.accepted = hmac.New(sha256.New, other), !r.dialed
	// The handshake has read all that the peer sent before. More is from an outsider.
	r.next -= uint64(len(r.inbox.queue))
	r.inbox.queue, r.inbox.received = nil, r.inbox.read
	var err error
	for _, b := range r.held {
		if err == nil {
			err = r.take(b, time.Now())
		}
	}
	r.held = nil
	r.mu.Unlock()
	if err != nil {
		r.end(err)
	}
}

// doubt notes that NATS says that the peer does not subscribe to its subject. An outsider can say that
// too, so that an open stream gets time to show that it is not true.
func (r *raw) doubt() {
	r.mu.Lock()
	opening, first := r.verify == nil, r.clock.doubted.IsZero()
	if first {
		r.clock.doubted = time.Now()
	}
	r.mu.Unlock()
	if opening {
		r.end(ErrUnreachable)
	} else if first {
		r.endpoint.later(func() { r.send(ping, nil) })
	}
}

// tick ends the stream if the peer is silent, and sends a ping if one is due.
func (r *raw) tick(now time.Time) {
	r.mu.Lock()
	err, due := r.clock.check(now)
	secure := r.verify != nil
	r.mu.Unlock()
	if err != nil {
		r.end(err)
	} else if due && secure {
		r.send(ping, nil)
	}
}
