package endpoint

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

var errFailed = errors.New("failed")

func fails() error    { return errFailed }
func succeeds() error { return nil }

func TestBreakerPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Breaker
		do := func(f func() error, want error) {
			t.Helper()
			if err := b.Do(t.Context(), f); !errors.Is(err, want) {
				t.Errorf("%v, want %v", err, want)
			}
		}
		do(fails, errFailed)
		do(fails, errFailed)
		do(succeeds, nil) // so that they are not in a row
		cancelled, cancel := context.WithCancel(t.Context())
		cancel()
		for range 5 { // the caller has left
			if err := b.Do(cancelled, fails); !errors.Is(err, errFailed) {
				t.Error(err)
			}
		}
		for range maxFailures {
			do(fails, errFailed)
		}
		do(succeeds, ErrPaused)
		time.Sleep(pauseTime)
		do(fails, errFailed) // one attempt
		do(succeeds, ErrPaused)
		time.Sleep(pauseTime)
		do(succeeds, nil)
		do(fails, errFailed)
		do(succeeds, nil)
	})
}

func TestBreakerBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b Breaker
		release := make(chan struct{})
		for range maxInFlight {
			go func() { _ = b.Do(t.Context(), func() error { <-release; return nil }) }()
		}
		synctest.Wait()
		if err := b.Do(t.Context(), succeeds); !errors.Is(err, ErrBusy) {
			t.Errorf("%v", err)
		}
		close(release)
		synctest.Wait()
		expect.OK(t, b.Do(t.Context(), succeeds))
	})
}

// A panic gives its place free.
func TestBreakerAfterPanics(t *testing.T) {
	var b Breaker
	for range maxInFlight + 1 {
		func() {
			defer func() { _ = recover() }()
			_ = b.Do(t.Context(), func() error { panic("no") })
		}()
	}
	expect.OK(t, b.Do(t.Context(), func() error { return nil }))
}
