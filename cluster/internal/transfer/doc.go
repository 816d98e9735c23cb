// Package transfer carries texts that may be longer than a frame between two routers.
//
// The sender keeps the text as a [Source] while the other side may want it. [Source.Send] sends the
// frame that announces it, with the first bytes, and unasked the next ones; [Source.Answer] sends
// the bytes that the receiver pulls. The receiver collects the bytes in a [Sink], which knows which
// bytes to pull and when: it holds no goroutine and no timer, and its user passes it the time.
// Missing bytes are pulled again, so that frames may get lost.
//
// The announcing frame is signed and has the hash of the whole. The parts are not signed: only
// [Sink.Bytes] says whether they were genuine.
package transfer

import (
	"time"

	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// MaxBody bounds a body, in bytes: a message of a server may have as many.
const MaxBody = wire.MaxLine

// MaxReceived is how many bytes of bodies a router receives at once; see [NewBudget].
const MaxReceived = 256 << 20

const (
	// window is how many bytes a pull asks for at most. The next pull follows when half of them
	// are there.
	window = 1 << 20

	// unasked is how many bytes a sender sends before the first pull: a text of 1 MiB and the JSON
	// around it.
	unasked = window + 64<<10

	// silence is after how long without bytes the missing ones are pulled again, and patience
	// after how long the body is given up.
	silence  = time.Second
	patience = 10 * time.Second

	// roomPause is how long a body waits before it looks again whether there is room for it.
	roomPause = 50 * time.Millisecond

	// maxRestarts is how often a body with a wrong hash is fetched again from its beginning: a
	// NATS client that may publish on the subject of a router can forge parts.
	maxRestarts = 2

	// reserved is up to which size the memory of a body is allocated at once. The memory of
	// larger bodies grows as the bytes come.
	reserved = 4 << 20
)
