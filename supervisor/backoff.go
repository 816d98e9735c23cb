package supervisor

import (
	"time"

	"github.com/cenkalti/backoff/v5"
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
)

// A history of failures says when to try again. Only the life of a server uses it.
type history struct {
	times   []time.Time // of the failures within loopWindow
	row     int         // failures since the last session
	looping bool        // in a crash loop, and not healthy since
	backoff *backoff.ExponentialBackOff
}

func newHistory() *history {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval = 500 * time.Millisecond
	b.Multiplier = 2
	b.MaxInterval = 30 * time.Second
	return &history{backoff: b}
}

// failed records a failure after a session that lasted ready; 0 means that no session
// was opened. It returns how long to wait before the next try; ok is false for a
// crash loop, and stays so until the server has been healthy. The wait is 0 after a
// healthy session, and at the first failure after any session.
func (h *history) failed(now time.Time, ready time.Duration) (wait time.Duration, ok bool) {
	if ready >= healthyAfter {
		h.looping = false
		h.backoff.Reset()
	}
	if ready > 0 {
		h.row = 0
	}
	h.row++
	for len(h.times) > 0 && now.Sub(h.times[0]) > loopWindow {
		h.times = h.times[1:]
	}
	h.times = append(h.times, now)
	switch {
	case h.looping || h.row >= loopFailures || len(h.times) >= loopFailures:
		h.looping = true
		return 0, false
	case ready >= healthyAfter || ready > 0 && len(h.times) == 1:
		return 0, true
	}
	return h.backoff.NextBackOff(), true
}

// reset forgets everything: another entry will run.
func (h *history) reset() {
	h.times, h.row, h.looping = nil, 0, false
	h.backoff.Reset()
}
