package supervisor

import (
	"reflect"
	"time"

	"github.com/cenkalti/backoff/v5"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/mcp-metarouter/metarouter/internal/status"
)

const (
	// healthyAfter is how long a server must have been ready to be started again
	// at once when it ends.
	healthyAfter = 10 * time.Second
	// A crash loop is loopFailures ends within loopWindow, or as many in a row
	// without a session between.
	loopFailures = 5
	loopWindow   = time.Minute
	// retryFailed is how often a failed server is tried again without a call, and
	// retryOnCall how often at most because of calls.
	retryFailed = 5 * time.Minute
	retryOnCall = 15 * time.Second
	// usefulEvery is how often a server that answers calls is started again, if it ends
	// more than once within loopWindow. Calls wait for the start.
	usefulEvery = time.Second
)

// A history of failures says when to try again. Only the life of a server uses it.
//
// A session that answered calls was useful, however it ended. Its end begins a new count
// of failures, so such a server is never in a crash loop; starts every usefulEvery at
// most keep a call that kills it each time from making a hot loop.
type history struct {
	times   []time.Time // of the failures within loopWindow, from the last useful session on
	row     int         // failures since the last session
	looping bool        // in a crash loop, and not healthy since
	backoff *backoff.ExponentialBackOff
	logged  logged
}

// A logged failure is the last one that an operator has read of.
type logged struct {
	fault status.Fault // without the differences between two failures of the same cause
	over  bool         // no further start was due
}

// An ended session is the part that a history needs. The zero value stands for a
// start that failed.
type ended struct {
	ready  time.Duration // how long the session lasted, above 0
	served int           // calls that it answered
}

func newHistory() *history {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval = 500 * time.Millisecond
	b.Multiplier = 2
	b.MaxInterval = 30 * time.Second
	return &history{backoff: b}
}

// failed records a failure. It returns how long to wait before the next try; ok is false
// for a crash loop, and stays so until the server has been healthy or useful. The wait is
// 0 after a healthy session, and at the first failure after any session.
func (h *history) failed(now time.Time, last ended) (wait time.Duration, ok bool) {
	if last.ready >= healthyAfter || last.served > 0 {
		h.looping, h.logged = false, logged{}
		h.backoff.Reset()
	}
	if last.ready > 0 {
		h.row = 0
	}
	h.row++
	for len(h.times) > 0 && now.Sub(h.times[0]) > loopWindow {
		h.times = h.times[1:]
	}
	if last.served > 0 {
		if len(h.times) > 0 {
			wait = max(0, usefulEvery-last.ready)
		}
		h.times = append(h.times[:0], now)
		return wait, true
	}
	h.times = append(h.times, now)
	switch {
	case h.looping || h.row >= loopFailures || len(h.times) >= loopFailures:
		h.looping = true
		return 0, false
	case last.ready >= healthyAfter || last.ready > 0 && len(h.times) == 1:
		return 0, true
	}
	return h.backoff.NextBackOff(), true
}

// level returns the level at which a failure is logged: for debugging if it is like the one before
// it, of which an operator has read. over says that no further start is due soon.
func (h *history) level(level zapcore.Level, f *status.Fault, over bool) zapcore.Level {
	next := logged{*f, over}
	next.fault.After, next.fault.Said, next.fault.Spoke = 0, nil, false
	if reflect.DeepEqual(h.logged, next) {
		return zap.DebugLevel
	}
	h.logged = next
	return level
}

// reset forgets everything: another entry will run.
func (h *history) reset() {
	*h = *newHistory()
}
