package peer

import (
	"slices"
	"strings"
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

	maxNotes = 8
)

// A Budget bounds the messages that a server sends without a request in one session: notifications,
// requests, and lines that are no messages. It counts those above the bounds, and the violations of the protocol.
type Budget struct {
	log   func(line []byte, why error) // of lines that are no message
	pause atomic.Int64                 // how long the reader is to wait, in nanoseconds

	mu         sync.Mutex // guards the fields below
	pass, read *rate.Limiter
	second     time.Time // when the count began
	count      int64     // messages in this second
	flood      status.Flood
	unusable   status.Unusable
	strays     int64    // lines that were no message
	stray      string   // the beginning of the first one that is [Showable]
	notes      []string // violations that are understood all the same, each once, as ends of sentences about the server
}

func newBudget(log func(line []byte, why error)) Budget {
	return Budget{log: log, pass: rate.NewLimiter(passRate, passBurst), read: rate.NewLimiter(readRate, readBurst)}
}

// Report sets the violations so far, and the messages above the bounds.
func (b *Budget) Report(st *status.Status) {
	b.mu.Lock()
	defer b.mu.Unlock()
	st.Flood, st.Unusable, st.StrayLines, st.StrayLine, st.Notes = b.flood, b.unusable, b.strays, b.stray, slices.Clone(b.notes)
}

// lasting are notifications that are never dropped: each has an effect that lasts, and
// many at once cost little.
var lasting = []string{
	"notifications/tools/list_changed", "notifications/prompts/list_changed", "notifications/resources/list_changed",
	"notifications/subscriptions/acknowledged", Cancelled,
}

// admit counts a message of the method, which may be "". It reports whether the message is to
// be passed on.
func (b *Budget) admit(method string, size int) bool {
	now, weight := time.Now(), min(1+size/heavy, maxWeight)
	b.mu.Lock()
	defer b.mu.Unlock()
	if now.Sub(b.second) >= time.Second {
		b.second, b.count = now, 0
	}
	b.count++
	if wait := b.read.ReserveN(now, weight).DelayFrom(now); wait > 0 {
		b.pause.Store(int64(min(wait, time.Second)))
	}
	if b.pass.AllowN(now, weight) {
		return true
	}
	if b.count >= b.flood.PerSecond {
		b.flood.PerSecond, b.flood.Method = b.count, method
	}
	if slices.Contains(lasting, method) {
		return true
	}
	b.flood.Dropped++
	return false
}

// Pace waits before the next message is read, if the server sends too many. It is
// called on the goroutine that reads. ended is closed when the session ends.
func (b *Budget) Pace(ended <-chan struct{}) {
	if b.pause.Load() != 0 {
		signal.Within(ended, time.Duration(b.pause.Swap(0)))
	}
}

// Note adds a note.
func (b *Budget) Note(note string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.notes) < maxNotes && !slices.Contains(b.notes, note) {
		b.notes = append(b.notes, note)
	}
}

// Skip notes a line that is no message; nil stands for a line that was not kept.
func (b *Budget) Skip(line []byte, why error) {
	b.log(line, why)
	text, _ := Showable(line)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.strays++
	if b.stray == "" {
		b.stray = text
	}
}

// spoil counts a message that can't be passed on.
func (b *Budget) spoil(cause error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.unusable.Count++
	b.unusable.Last = problem(cause)
}

// Showable returns the beginning of a line that is no message. It returns false if
// the line looks like a message, since it may then hold a result.
func Showable(line []byte) (string, bool) {
	if len(line) == 0 || line[0] == '{' || line[0] == '[' {
		return "", false
	}
	return strings.ToValidUTF8(string(line[:min(len(line), 200)]), ""), true
}
