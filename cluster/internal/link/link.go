// Package link connects a node to NATS.
package link

import (
	"errors"

	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
)

// A Wire sends frames to other routers and receives theirs. Calls and liveness need nothing else of
// NATS. A frame may get lost; those between two routers stay in order.
type Wire interface {
	// Self is where other routers reach this one.
	Self() frame.Address

	// Send signs and sends a frame; it fills in From, To and Time. The zero address is all nodes.
	// The error is ErrDisconnected while there is no connection: then the frame is not sent, now or
	// later. Send does not wait.
	Send(to frame.Address, h frame.Header, payload []byte) error

	// MaxPayload is how many bytes a payload may have.
	MaxPayload() int
}

// ErrDisconnected is wrapped by the errors of frames that were not sent.
var ErrDisconnected = errors.New("no connection to the cluster")
