package supervisor

import (
	"time"

	"github.com/cenkalti/backoff/v5"
)

const (
	// healthyAfter is how long a server must have been ready for its end to be
	// no part of a crash loop.
	healthyAfter = 10 * time.Second
	// A crash loop is loopFailures ends within loopWindow.
	loopFailures = 5
	loopWindow   = time.Minute
	// retryFailed is how often a failed server is tried again unasked, and
	// retryOnCall how often at the most because of calls.
	retryFailed = 5 * time.Minute
	retryOnCall = 15 * time.Second
)

// A history of failures says when to try again.
type history struct {
	times   []time.Time // of the failures within loopWindow
	backoff *backoff.ExponentialBackOff
}

func newHistory() *history {
	b := backoff.NewExponentialBackOff()
	b.InitialInterval = 500 * time.Millisecond
	b.Multiplier = 2
	b.MaxInterval = 30 * time.Second
	return &history{backoff: b}
}

// failed records a failure after a session that lasted ready (0: there was
// none). It returns how long to wait before the next try; ok is false for a
// crash loop. The first failure after a session is tried again at once.
func (h *history) failed(now time.Time, ready time.Duration) (wait time.Duration, ok bool) {
	if ready >= healthyAfter {
		h.reset()
	}
	for len(h.times) > 0 && now.Sub(h.times[0]) > loopWindow {
		h.times = h.times[1:]
	}
	h.times = append(h.times, now)
	if len(h.times) >= loopFailures {
		return 0, false
	}
	if len(h.times) == 1 && ready > 0 {
		return 0, true
	}
	return h.backoff.NextBackOff(), true
}

func (h *history) reset() {
	h.times = nil
	h.backoff.Reset()
}
