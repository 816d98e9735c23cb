package frame

import (
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/nats-io/nkeys"
)

// Bounds, in bytes. A frame that is larger is neither written nor read.
const (
	MaxFrame  = 256 << 10
	MaxHeader = 128 << 10
)

// A frame begins with the version, and the length of the header as 4 bytes, big-endian. The header
// follows, as JSON, then the payload, then the signature of all before the payload.
//
// The first byte keeps signatures of frames apart from all others that a node makes with its key:
// no announcement and no nonce of NATS begins with it.
const (
	version       = Major<<4 | Minor
	prefixSize    = 1 + 4
	signatureSize = ed25519.SignatureSize
)

// A VersionError is the error about a frame of another major version.
type VersionError struct{ Major, Minor int }

func (e *VersionError) Error() string {
	return fmt.Sprintf("a frame of version %d.%d, this router reads %d.x; run the same major version of metarouter on all nodes", e.Major, e.Minor, Major)
}

// ErrTooLarge is wrapped by the errors about frames that are larger than a bound.
var ErrTooLarge = errors.New("the frame is too large")

// A Frame is a frame that was received.
type Frame struct {
	Header  Header
	Payload []byte // a part of the decoded bytes

	signed, signature []byte
	batch             *batch // of the bundle in which it came; nil if it came alone
}

// Encode returns a frame as bytes, signed unless it is a [Part]; signer may be nil for these. Only
// frames with a Body or a Part may have a payload: a payload of others would not be authenticated.
// The error wraps [ErrTooLarge] if the frame is too large.
func Encode(h Header, payload []byte, signer Signer) ([]byte, error) {
	return Append(nil, h, payload, signer)
}

// Append appends the bytes of Encode to dst. Without a signer the frame has no signature, as in a
// bundle.
func Append(dst []byte, h Header, payload []byte, signer Signer) ([]byte, error) {
	if len(payload) > 0 && h.Body == nil && h.Part == nil {
		return nil, fmt.Errorf("a frame of kind %q has a payload, but no body", h.Kind)
	}
	if need := 1024 + len(payload) + signatureSize; cap(dst) < need {
		dst = make([]byte, 0, need)
	}
	data, err := appendHeader(append(dst[:0], version, 0, 0, 0, 0), &h)
	if err != nil {
		return nil, fmt.Errorf("encode a frame of kind %q: %w", h.Kind, err)
	}
	length := len(data) - prefixSize
	if length > MaxHeader {
		return nil, fmt.Errorf("%w: its header has %d bytes, at most %d are allowed", ErrTooLarge, length, MaxHeader)
	}
	if size := len(data) + len(payload) + signatureSize; size > MaxFrame {
		return nil, fmt.Errorf("%w: it has %d bytes, at most %d are allowed", ErrTooLarge, size, MaxFrame)
	}
	binary.BigEndian.PutUint32(data[1:], uint32(length))
	if h.Kind == Part || signer == nil {
		return append(data, payload...), nil
	}
	signature, err := signer.Sign(data)
	if err != nil {
		return nil, fmt.Errorf("sign a frame: %w", err)
	}
	return append(append(data, payload...), signature...), nil
}

// Decode reads a frame. It does not check the signature; the frame refers to data. An error about
// another major version is a [*VersionError].
func Decode(data []byte) (*Frame, error) { return decode(data, false) }

// decode reads a frame, which has no signature of its own if it is in a bundle.
func decode(data []byte, bundled bool) (*Frame, error) {
	switch {
	case len(data) > MaxFrame:
		return nil, fmt.Errorf("%w: it has %d bytes, at most %d are allowed", ErrTooLarge, len(data), MaxFrame)
	case len(data) < prefixSize:
		return nil, fmt.Errorf("a frame has only %d bytes", len(data))
	case data[0]>>4 != Major:
		return nil, &VersionError{int(data[0] >> 4), int(data[0] & 15)}
	}
	length := binary.BigEndian.Uint32(data[1:])
	if length > MaxHeader || int(length) > len(data)-prefixSize {
		return nil, fmt.Errorf("a frame of %d bytes has a header of %d bytes", len(data), length)
	}
	end := prefixSize + int(length)
	f := &Frame{signed: data[:end:end]}
	if err := decodeHeader(data[prefixSize:end], &f.Header); err != nil {
		return nil, fmt.Errorf("decode the header of a frame: %w", err)
	}
	if err := f.divide(data[end:], bundled); err != nil {
		return nil, err
	}
	return f, f.Header.check()
}

// divide divides the bytes after the header into the payload and the signature.
func (f *Frame) divide(rest []byte, bundled bool) error {
	f.Payload = rest
	if f.Header.Kind != Part && !bundled {
		at := len(rest) - signatureSize
		if at < 0 {
			return fmt.Errorf("a frame of kind %q is not signed", bounded(string(f.Header.Kind)))
		}
		f.Payload, f.signature = rest[:at:at], rest[at:]
	}
	if len(f.Payload) > 0 && f.Header.Body == nil && f.Header.Part == nil {
		return fmt.Errorf("a frame of kind %q has a payload, but no body", bounded(string(f.Header.Kind)))
	}
	return nil
}

// check returns why a header is invalid. The address of the sender becomes part of subjects, so
// that it may only have letters and digits.
func (h *Header) check() error {
	switch {
	case h.Kind == "":
		return errors.New("a frame has no kind")
	case !h.From.valid():
		return errors.New("a frame has no valid sender")
	case h.To != Address{} && !h.To.valid():
		return errors.New("a frame has no valid receiver")
	}
	return nil
}

// valid reports whether the address has the form of one.
func (a Address) valid() bool {
	if len(a.Key) != 56 || a.Key[0] != 'U' || len(a.Instance) == 0 || len(a.Instance) > 64 {
		return false
	}
	for i := range len(a.Key) {
		if c := a.Key[i]; (c < 'A' || c > 'Z') && (c < '2' || c > '7') {
			return false
		}
	}
	for i := range len(a.Instance) {
		if c := a.Instance[i]; (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return true
}

// bounded returns a text of another node as a log may have it.
func bounded(s string) string { return s[:min(len(s), 32)] }

// Verify checks the signature with the key of Header.From. Whether that key is trusted is for the
// caller to check before. The error of a [Part] says that it has no signature.
//
// The public key is decoded each time: that takes a fiftieth of the check.
func (f *Frame) Verify() error {
	if f.batch != nil {
		if err := f.batch.verify(); err != nil {
			return fmt.Errorf("frames of which one is of kind %q: %w", bounded(string(f.Header.Kind)), err)
		}
		return nil
	}
	if f.signature == nil {
		return fmt.Errorf("a frame of kind %q has no signature", f.Header.Kind)
	}
	if err := Verify(f.Header.From.Key, f.signed, f.signature); err != nil {
		return fmt.Errorf("a frame of kind %q: %w", bounded(string(f.Header.Kind)), err)
	}
	return nil
}

// Verify checks a signature with the public key of a node.
func Verify(key string, data, signature []byte) error {
	if !nkeys.IsValidPublicUserKey(key) {
		return errors.New("the public key of the sender is invalid")
	}
	public, err := nkeys.Decode(nkeys.PrefixByteUser, []byte(key))
	if err != nil {
		return errors.New("the public key of the sender is invalid")
	}
	if !ed25519.Verify(public, data, signature) {
		return fmt.Errorf("the signature is not that of the node %s", key)
	}
	return nil
}
