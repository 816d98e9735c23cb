package transfer

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
	"github.com/mcp-metarouter/metarouter/cluster/internal/link"
)

// A Source is a body that another router fetches. It does not change: several goroutines may use it.
type Source struct {
	body frame.Body
	data []byte
}

// NewSource returns the source of a body with an ID. data must not be changed afterwards.
func NewSource(id string, data []byte) *Source {
	return &Source{frame.Body{ID: id, Size: int64(len(data)), Sum: Sum(data)}, data}
}

// Sum returns the hash of a text as a [frame.Body] has it: SHA-256, hexadecimal.
func Sum(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// Body returns the announcement of the body.
func (s *Source) Body() frame.Body { return s.body }

// Send sends the frame h, which announces the body and has its first bytes, and then further bytes
// as parts of the call h.Call. The error says that the frame was not sent. Parts that were not sent
// will be pulled.
func (s *Source) Send(w link.Wire, to frame.Address, h frame.Header) error {
	h.Body = &s.body
	first := s.data[:min(len(s.data), max(0, w.MaxPayload()))]
	err := w.Send(to, h, first)
	if errors.Is(err, frame.ErrTooLarge) && len(first) > 0 { // the header is long
		first = nil
		err = w.Send(to, h, nil)
	}
	if err != nil {
		return err
	}
	s.parts(w, to, h.Call, len(first), min(len(s.data), unasked))
	return nil
}

// Answer sends the bytes that a pull of the call asks for, if they are bytes of this body. The
// frame of the pull must have been verified: its answer may be much longer. The error says that not
// all parts were sent.
func (s *Source) Answer(w link.Wire, to frame.Address, call string, pull frame.Range) error {
	size := int64(len(s.data))
	if pull.Body != s.body.ID || pull.Offset < 0 || pull.Offset > size || pull.Length < 0 {
		return fmt.Errorf("a pull of the bytes of a body from %d on, it has %d", pull.Offset, size)
	}
	end := pull.Offset + min(pull.Length, size-pull.Offset, window)
	return s.parts(w, to, call, int(pull.Offset), int(end))
}

// parts sends the bytes from one offset to another.
func (s *Source) parts(w link.Wire, to frame.Address, call string, from, end int) error {
	size := max(1, w.MaxPayload())
	for from < end {
		next := min(from+size, end)
		h := frame.Header{Kind: frame.Part, Call: call, Part: &frame.Range{Body: s.body.ID, Offset: int64(from)}}
		if err := w.Send(to, h, s.data[from:next]); err != nil {
			return err
		}
		from = next
	}
	return nil
}
