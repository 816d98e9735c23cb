package frame

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
)

// A bundle is several frames of one sender to one receiver with one signature: the signature and
// its check are most of the cost of a short frame. It begins with the marker; each frame follows as
// its length, 4 bytes, big-endian, and its bytes without a signature; at the end is the signature
// of the marker and of the SHA-256 hashes of the signed bytes of each frame.
const (
	marker   = Major<<4 | 0xF
	maxBatch = 64 // frames
)

// A batch is the signature of a bundle, which is checked once.
type batch struct {
	key               string
	signed, signature []byte
	once              sync.Once
	err               error
}

func (b *batch) verify() error {
	b.once.Do(func() { b.err = Verify(b.key, b.signed, b.signature) })
	return b.err
}

// Sign adds the signature to a frame that [Append] has written without a signer. payload is the
// length of its payload.
func Sign(data []byte, payload int, signer Signer) ([]byte, error) {
	signature, err := signer.Sign(data[:len(data)-payload])
	if err != nil {
		return nil, fmt.Errorf("sign a frame: %w", err)
	}
	return append(data, signature...), nil
}

// A Bundle collects frames to send them with one signature. The zero value is empty. Its memory may
// be used again: see Reset.
type Bundle struct {
	data, signed []byte
	frames       int
}

// Reset empties the bundle. The bytes of Encode are no longer valid then.
func (b *Bundle) Reset() { b.frames = 0 }

// Add adds a frame that [Append] has written without a signer, and is no [Part]. payload is the
// length of its payload. It returns false if the bundle would be longer than most or [MaxFrame].
func (b *Bundle) Add(data []byte, payload, most int) bool {
	if b.frames == 0 {
		b.data, b.signed = append(b.data[:0], marker), append(b.signed[:0], marker)
	}
	if b.frames == maxBatch || len(b.data)+4+len(data)+signatureSize > min(most, MaxFrame) {
		return false
	}
	sum := sha256.Sum256(data[:len(data)-payload])
	b.signed = append(b.signed, sum[:]...)
	b.data = append(binary.BigEndian.AppendUint32(b.data, uint32(len(data))), data...)
	b.frames++
	return true
}

// Encode returns the bundle as bytes, once. It must not be empty.
func (b *Bundle) Encode(signer Signer) ([]byte, error) {
	signature, err := signer.Sign(b.signed)
	if err != nil {
		return nil, fmt.Errorf("sign frames: %w", err)
	}
	b.data = append(b.data, signature...)
	return b.data, nil
}

var errBundle = errors.New("a bundle of frames is damaged")

// DecodeAll reads a frame, or a bundle of frames, as [Decode] does.
func DecodeAll(data []byte) ([]*Frame, error) {
	if len(data) == 0 || data[0] != marker {
		f, err := Decode(data)
		if err != nil {
			return nil, err
		}
		return []*Frame{f}, nil
	}
	if len(data) > MaxFrame || len(data) < 1+signatureSize {
		return nil, errBundle
	}
	end := len(data) - signatureSize
	of := &batch{signed: []byte{marker}, signature: data[end:]}
	var all []*Frame
	for rest := data[1:end:end]; len(rest) > 0; {
		if len(rest) < 4 || len(all) == maxBatch {
			return nil, errBundle
		}
		length := binary.BigEndian.Uint32(rest)
		if uint64(length) > uint64(len(rest)-4) {
			return nil, errBundle
		}
		f, err := decode(rest[4:4+length:4+length], true)
		if err != nil {
			return nil, err
		}
		if f.Header.Kind == Part || len(all) > 0 && f.Header.From != all[0].Header.From {
			return nil, errBundle
		}
		f.batch = of
		sum := sha256.Sum256(f.signed)
		of.signed = append(of.signed, sum[:]...)
		all, rest = append(all, f), rest[4+length:]
	}
	if len(all) == 0 {
		return nil, errBundle
	}
	of.key = all[0].Header.From.Key
	return all, nil
}
