package caller

import (
	"sync"
	"sync/atomic"

	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
	"github.com/mcp-metarouter/metarouter/internal/signal"
)

// Bounds of the frames of an exchange that wait to be handled. Notifications, which may get lost,
// take half of them at most.
const (
	maxWaiting      = 1024
	maxWaitingBytes = 4 << 20

	// maxWaitingAll bounds the bytes that wait in all exchanges together.
	maxWaitingAll = 256 << 20
)

// An inbox has the frames that came for an exchange and wait to be handled.
type inbox struct {
	came chan struct{} // has an item when there are frames
	all  *atomic.Int64 // the bytes that wait in all inboxes

	mu     sync.Mutex // guards the fields below
	frames []*frame.Frame
	bytes  int
	closed bool
}

func (b *inbox) init(all *atomic.Int64) { b.came, b.all = make(chan struct{}, 1), all }

// put adds a frame. It reports false if too many wait: then the frame is dropped.
func (b *inbox) put(f *frame.Frame) bool {
	frames, bytes := maxWaiting, maxWaitingBytes
	if f.Header.Kind == frame.Notify {
		frames, bytes = frames/2, bytes/2
	}
	size := len(f.Payload) + 512
	if m := f.Header.Message; m != nil {
		size += len(m.Params)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || len(b.frames) >= frames || b.bytes+size > bytes {
		return false
	}
	if b.all.Add(int64(size)) > maxWaitingAll {
		b.all.Add(int64(-size))
		return false
	}
	b.frames = append(b.frames, f)
	b.bytes += size
	signal.Leave(b.came)
	return true
}

// take removes and returns all frames.
func (b *inbox) take() []*frame.Frame {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := b.frames
	b.all.Add(int64(-b.bytes))
	b.frames, b.bytes = nil, 0
	return all
}

// close drops the frames that wait, and those that will come.
func (b *inbox) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all.Add(int64(-b.bytes))
	b.frames, b.bytes, b.closed = nil, 0, true
}
