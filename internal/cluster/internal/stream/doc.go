// Package stream carries byte streams between routers over NATS, under TLS 1.3.
//
// # Streams
//
// An [Endpoint] is a router. [Endpoint.Dial] opens a stream to another one, which gets it from
// [Endpoint.Accept]. A stream is ordered and has a window: a writer waits while the reader is behind.
// Both ends prove their node's key in the TLS handshake. A stream ends when a frame is lost; it is
// never repaired, so no byte arrives twice.
//
// # Frames
//
// All frames of one direction of a stream go to one subject:
//
//	PREFIX.<receiver's key>.<receiver's router>.<sender's key>.<stream>
//
// The permissions of NATS can so bind the sender's key to a login. Frames have sequence numbers. Once
// the TLS handshake is complete they have a MAC too, with a key of the TLS session. An outsider who
// may publish to the subject cannot end or change an open stream, unless NATS drops messages in a flood,
// but can keep a stream from being opened.
//
// # Liveness
//
// Each end sends a ping if it had nothing to send for half a second. An end gives up a stream after 3 s
// of silence, or 1.5 s after NATS said that no router subscribes to the other end's subject, unless
// a frame arrives.
//
// A frame has the time at which it was sent, if the sender received a frame in the 1.5 s before. Such
// a frame affirms that the sender does not give up the stream for 1.5 s more. [Conn.Lapsed] reports
// that the newest affirmation is too old, since one end was frozen or cut off.
package stream

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/session"
)

// Why a stream cannot be opened, or ends. An error of Dial means that no byte of the caller was sent.
var (
	ErrUnreachable  = errors.New("the other router is not connected to NATS")
	ErrSilent       = errors.New("the other router does not answer")
	ErrLost         = errors.New("NATS lost a message")
	ErrDisconnected = errors.New("not connected to NATS")
	ErrUntrusted    = error(refusal("one of the nodes does not trust the other"))
	ErrRefused      = error(refusal("the other router refused the stream"))
	ErrBusy         = errors.New("too many streams are open or being opened")
	ErrProtocol     = errors.New("the other router does not follow the protocol of streams")
)

// A refusal is a [session.ErrForbidden]: it does not help to try again at once.
type refusal string

func (r refusal) Error() string        { return string(r) }
func (r refusal) Is(target error) bool { return target == session.ErrForbidden }

// errClosed is for bytes that were to come. It is not io.ErrUnexpectedEOF itself, which TLS takes for an
// end in order.
var errClosed = fmt.Errorf("the other router closed the stream: %w", io.ErrUnexpectedEOF)

// reasons are what a frame of kind closed says, by its number.
var reasons = [...]error{errClosed, ErrRefused, ErrBusy, ErrUntrusted, ErrProtocol, ErrLost, ErrSilent, ErrUnreachable, ErrDisconnected}

// known reports whether an error is one of this package.
func known(err error) bool {
	return slices.ContainsFunc(reasons[1:], func(r error) bool { return errors.Is(err, r) })
}

// reason returns the number of an error as the body of a frame.
func reason(err error) []byte {
	return []byte{byte(max(0, slices.IndexFunc(reasons[:], func(r error) bool { return errors.Is(err, r) })))}
}

// reasonOf returns the error that a frame of kind closed has.
func reasonOf(body []byte) error {
	if len(body) != 1 || int(body[0]) >= len(reasons) {
		return ErrProtocol
	}
	return reasons[body[0]]
}

const (
	version      = 1
	maxTerms     = 4 << 10 // bytes
	maxStreams   = 4096
	maxStreamsOf = 512 // that one node opened
	maxAccepts   = 64  // handshakes at once of streams that others open
	maxAcceptsOf = 16  // of one node
	maxHeld      = 16  // frames that come before their MAC can be verified
	maxWork      = 1024
	maxChunk     = 64 << 10  // bytes of a frame
	window       = 512 << 10 // of frames that are not read yet, each counted as its bytes and frameCost
	windowSlack  = 1 << 10   // for TLS's last record, which does not wait
	frameCost    = 64

	handshakeTime = 10 * time.Second
	tick          = 250 * time.Millisecond
	silence       = 3 * time.Second
	affirmation   = silence / 2
	measureEvery  = 5 * time.Second
)
