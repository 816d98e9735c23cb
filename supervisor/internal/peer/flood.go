package peer

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/status"
)

// A server may send without a request passRate messages a second, and passBurst at once
// after a pause; further ones are not passed on. Above readRate and readBurst, it is read
// from slowly, so that it has to wait.
const (
	passRate, passBurst = 1000, 5000
	readRate, readBurst = 10_000, 20_000

	// heavy is the size of a message, in bytes, that counts as two, and so on up to
	// maxWeight.
	heavy     = 4 << 10
	maxWeight = passBurst / 10
)

// A Flood limits messages that a server sends without a request: notifications, requests, and
// lines that are no messages.
type Flood struct {
	mu         sync.Mutex // guards the fields below
	pass, read *rate.Limiter
	second     time.Time // when the count began
	count      int64     // messages in this second
	seen       status.Flood

	pause atomic.Int64 // how long the reader is to wait, in nanoseconds
}

func newFlood() Flood {
	return Flood{pass: rate.NewLimiter(passRate, passBurst), read: rate.NewLimiter(readRate, readBurst)}
}

// lasting are notifications that are never dropped: each has an effect that lasts, and
// many at once cost little.
var lasting = []string{
	"notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed",
	"notifications/subscriptions/acknowledged", Cancelled,
}

// admit counts a message of the method, which may be "". It reports whether the message is to
// be passed on.
func (f *Flood) admit(method string, size int) bool {
	now, weight := time.Now(), min(1+size/heavy, maxWeight)
	f.mu.Lock()
	defer f.mu.Unlock()
	if now.Sub(f.second) >= time.Second {
		f.second, f.count = now, 0
	}
	f.count++
	if wait := f.read.ReserveN(now, weight).DelayFrom(now); wait > 0 {
		f.pause.Store(int64(min(wait, time.Second)))
	}
	if f.pass.AllowN(now, weight) {
		return true
	}
	if f.count >= f.seen.PerSecond {
		f.seen.PerSecond, f.seen.Method = f.count, method
	}
	if slices.Contains(lasting, method) {
		return true
	}
	f.seen.Dropped++
	return false
}

// Seen returns the messages above the limit so far.
func (f *Flood) Seen() status.Flood {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen
}

// Pace waits before the next message is read, if the server floods the session. It is
// called on the goroutine that reads. ended is closed when the session ends.
func (f *Flood) Pace(ended <-chan struct{}) {
	if f.pause.Load() != 0 {
		signal.Within(ended, time.Duration(f.pause.Swap(0)))
	}
}
