package stream

import (
	"crypto/hmac"
	"encoding/binary"
	"hash"
)

// A kind says what a frame is for.
type kind byte

const (
	open   kind = 1 + iota // version, the dialer's router, the terms
	accept                 // the stream is open
	data                   // bytes of TLS
	ack                    // how much of the window was read in all
	ping
	pong   // the sequence number of the ping, the sender's time
	closed // the number of a reason

	sealed kind = 0x80 // the frame has a MAC
)

// A frame is a kind, a sequence number, the sender's time in Unix nanoseconds or 0, a MAC or zeros,
// and a body.
const (
	atMAC      = 1 + 8 + 8
	macSize    = 16
	headerSize = atMAC + macSize
)

type frame struct {
	kind   kind
	sealed bool
	seq    uint64
	sent   int64
	body   []byte
}

// parse reads a frame, and reports whether it is one. The body is not copied.
func parse(b []byte) (f frame, ok bool) {
	if len(b) < headerSize {
		return f, false
	}
	k := kind(b[0])
	return frame{
		kind: k &^ sealed, sealed: k&sealed != 0,
		seq: binary.BigEndian.Uint64(b[1:]), sent: int64(binary.BigEndian.Uint64(b[9:])), body: b[headerSize:],
	}, true
}

// appendFrame appends a frame, with a MAC if seal is not nil.
func appendFrame(b []byte, seal hash.Hash, f frame) []byte {
	start := len(b)
	if seal != nil {
		f.kind |= sealed
	}
	b = append(b, byte(f.kind))
	b = binary.BigEndian.AppendUint64(b, f.seq)
	b = binary.BigEndian.AppendUint64(b, uint64(f.sent))
	b = append(b, make([]byte, macSize)...)
	b = append(b, f.body...)
	if seal != nil {
		copy(b[start+atMAC:], mac(seal, b[start:]))
	}
	return b
}

// verified reports whether the MAC of a frame is right.
func verified(seal hash.Hash, b []byte) bool {
	return hmac.Equal(mac(seal, b), b[atMAC:headerSize])
}

func mac(seal hash.Hash, b []byte) []byte {
	seal.Reset()
	seal.Write(b[:atMAC])
	seal.Write(b[headerSize:])
	return seal.Sum(nil)[:macSize]
}

func number(n uint64) []byte { return binary.BigEndian.AppendUint64(nil, n) }
