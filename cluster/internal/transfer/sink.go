package transfer

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"sync/atomic"
	"time"

	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
)

// Errors of a [Sink].
var (
	// ErrInvalid is wrapped by the errors about bodies that are not as they were announced, or
	// that may not be announced so.
	ErrInvalid = errors.New("invalid body")

	// ErrSilent is wrapped by the errors about bodies that do not come.
	ErrSilent = errors.New("the other node does not send the rest of a body")

	// ErrNoRoom is wrapped by the errors about bodies that had to wait too long for others.
	ErrNoRoom = errors.New("too many bytes are received from other nodes at once")
)

// A Budget bounds the bytes of all bodies that are received at once. Several goroutines may use it.
type Budget struct {
	limit int64
	used  atomic.Int64
}

// NewBudget returns a budget of a number of bytes.
func NewBudget(bytes int64) *Budget { return &Budget{limit: bytes} }

// take reports whether there is room for n bytes, which are taken then. A body has room if there is
// no other one.
func (b *Budget) take(n int64) bool {
	if used := b.used.Add(n); used > b.limit && used > n {
		b.used.Add(-n)
		return false
	}
	return true
}

func (b *Budget) release(n int64) { b.used.Add(-n) }

// A Sink collects a body. It belongs to one goroutine.
type Sink struct {
	body   frame.Body
	budget *Budget
	data   []byte    // the bytes so far
	sum    hash.Hash // of them; nil if the announcing frame had all

	taken    bool  // of the budget
	asked    int64 // bytes before this offset were sent unasked, or pulled
	lost     int64 // the offset from which on bytes were pulled again because later ones came; -1 before
	restarts int
	began    time.Time // when the sink was made, or the last bytes that were missing came
	pulled   time.Time // when the last bytes came, or were pulled
	wrong    error     // why there is no body
}

// NewSink returns a sink for a body. Its announcing frame was verified and had the first bytes. If
// these are all bytes, they are not copied. The error wraps [ErrInvalid]. Close must be called when
// the sink is no longer used.
func NewSink(b frame.Body, first []byte, budget *Budget, now time.Time) (*Sink, error) {
	switch {
	case b.Size < 0 || b.Size > MaxBody:
		return nil, fmt.Errorf("%w: it has %d bytes, at most %d are allowed", ErrInvalid, b.Size, MaxBody)
	case len(b.Sum) != 2*sha256.Size:
		return nil, fmt.Errorf("%w: it has no SHA-256 sum", ErrInvalid)
	case int64(len(first)) > b.Size:
		return nil, fmt.Errorf("%w: it has %d bytes, and %d came", ErrInvalid, b.Size, len(first))
	}
	s := &Sink{body: b, budget: budget, lost: -1, began: now, pulled: now}
	if int64(len(first)) == b.Size {
		s.data = first
		if Sum(first) != b.Sum {
			return nil, s.forged()
		}
		return s, nil
	}
	s.asked = min(b.Size, max(unasked, int64(len(first))))
	s.sum = sha256.New()
	s.Add(frame.Range{Body: b.ID}, first, now)
	return s, nil
}

// Add takes a part of the body. Parts of other bodies, and bytes that are there already or do not
// follow these, are dropped.
func (s *Sink) Add(at frame.Range, payload []byte, now time.Time) {
	have := int64(len(s.data))
	if at.Body != s.body.ID || s.done() || at.Offset < 0 || at.Offset > s.body.Size || !s.admit() {
		return
	}
	if at.Offset > have {
		if s.lost != have { // the bytes between were lost: pull from there once
			s.lost, s.asked = have, have
		}
		return
	}
	if at.Offset+int64(len(payload)) <= have || at.Offset+int64(len(payload)) > s.body.Size {
		return
	}
	s.append(payload[have-at.Offset:])
	s.asked = max(s.asked, int64(len(s.data)))
	s.lost, s.began, s.pulled = -1, now, now
	if int64(len(s.data)) == s.body.Size && hex.EncodeToString(s.sum.Sum(nil)) != s.body.Sum {
		s.restart()
	}
}

// append adds bytes to those that are there.
func (s *Sink) append(more []byte) {
	if need := len(s.data) + len(more); need > cap(s.data) {
		size := s.body.Size
		if size > reserved {
			size = min(size, max(reserved, 2*int64(cap(s.data)), int64(need)))
		}
		grown := make([]byte, len(s.data), size)
		copy(grown, s.data)
		s.data = grown
	}
	s.data = append(s.data, more...)
	s.sum.Write(more)
}

// restart has a body with the wrong hash fetched again.
func (s *Sink) restart() {
	if s.restarts == maxRestarts {
		s.wrong = s.forged()
		return
	}
	s.restarts++
	s.data, s.asked, s.lost = s.data[:0], 0, -1
	s.sum.Reset()
}

func (s *Sink) forged() error {
	return fmt.Errorf("%w: its %d bytes do not have the SHA-256 sum that the other node has signed", ErrInvalid, s.body.Size)
}

// admit reports whether there is room for the body.
func (s *Sink) admit() bool {
	s.taken = s.taken || s.budget.take(s.body.Size)
	return s.taken
}

// done reports whether all bytes are there, or will never be.
func (s *Sink) done() bool { return s.wrong != nil || int64(len(s.data)) == s.body.Size }

// Next returns which bytes to pull now, or a length of 0, and when to call it again if no part
// comes before. After the last part, wake is zero. The error wraps [ErrSilent] or [ErrNoRoom] if no
// bytes came for 10 s; there is no use in waiting for the rest then.
func (s *Sink) Next(now time.Time) (pull frame.Range, wake time.Time, err error) {
	if s.done() {
		return frame.Range{}, time.Time{}, nil
	}
	have := int64(len(s.data))
	room := s.admit()
	if now.Sub(s.began) >= patience {
		if !room {
			return frame.Range{}, time.Time{}, fmt.Errorf("%w: no room for %d bytes in %s", ErrNoRoom, s.body.Size, patience)
		}
		return frame.Range{}, time.Time{}, fmt.Errorf("%w: %d of %d bytes came, none in %s", ErrSilent, have, s.body.Size, patience)
	}
	if !room {
		s.asked = have // bytes that are sent meanwhile are dropped
		return frame.Range{}, now.Add(roomPause), nil
	}
	if now.Sub(s.pulled) >= silence {
		s.asked, s.lost = have, -1
	}
	if s.asked < s.body.Size && s.asked-have <= window/2 {
		pull = frame.Range{Body: s.body.ID, Offset: s.asked, Length: min(window, s.body.Size-s.asked)}
		s.asked += pull.Length
		s.pulled = now
	}
	return pull, s.pulled.Add(silence), nil
}

// Bytes returns the body, and whether all of it is there. The error wraps [ErrInvalid] if its hash
// is not the announced one.
func (s *Sink) Bytes() (data []byte, ok bool, err error) {
	switch {
	case s.wrong != nil:
		return nil, false, s.wrong
	case !s.done():
		return nil, false, nil
	}
	return s.data, true, nil
}

// Close returns the bytes of the sink to the budget. The bytes that Bytes returned stay valid.
func (s *Sink) Close() {
	if s.taken {
		s.taken = false
		s.budget.release(s.body.Size)
	}
}
