package endpoint

import (
	"context"
	"errors"
	"sync"
	"time"
)

const (
	maxInFlight = 4                // requests at a time
	maxFailures = 3                // in a row, after which there is a pause
	pauseTime   = 30 * time.Second // without requests
)

var (
	// ErrBusy is returned while 4 requests are in flight.
	ErrBusy = errors.New("4 requests are in flight already")

	// ErrPaused is returned for 30 s after 3 failures in a row.
	ErrPaused = errors.New("the last 3 requests have failed; there is a pause of 30 s")
)

// A Breaker bounds the requests to one model: 4 at a time, and none for 30 s after 3 failures in a
// row. The zero value works. Many goroutines may use it.
type Breaker struct {
	mu       sync.Mutex // guards the fields below
	inFlight int
	failures int // in a row
	resumes  time.Time
}

// Do calls f, unless [ErrBusy] or [ErrPaused] says why not, and returns its error. An error
// counts as a failure unless the caller has cancelled ctx.
func (b *Breaker) Do(ctx context.Context, f func() error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.failures >= maxFailures && time.Now().Before(b.resumes):
		return ErrPaused
	case b.inFlight >= maxInFlight:
		return ErrBusy
	}
	b.inFlight++
	defer func() { b.inFlight-- }()
	err := b.unlocked(f)
	switch {
	case err == nil:
		b.failures = 0
	case !errors.Is(ctx.Err(), context.Canceled):
		b.failures++
		b.resumes = time.Now().Add(pauseTime)
	}
	return err
}

func (b *Breaker) unlocked(f func() error) error {
	b.mu.Unlock()
	defer b.mu.Lock() // also if f panics
	return f()
}
