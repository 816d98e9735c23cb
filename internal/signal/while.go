package signal

import (
	"context"
	"sync"
	"time"
)

// While returns a context that ends, with the cause why, when holds reports false. It is asked each time after the interval, and
// gets the context. stop must be called: it ends the context too, and waits for holds.
func While(ctx context.Context, interval time.Duration, holds func(context.Context) bool, why error) (_ context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	var asking sync.WaitGroup
	asking.Go(func() {
		again := time.NewTicker(interval)
		defer again.Stop()
		for {
			select {
			case <-again.C:
			case <-ctx.Done():
				return
			}
			if !holds(ctx) {
				cancel(why)
				return
			}
		}
	})
	return ctx, func() {
		cancel(nil)
		asking.Wait()
	}
}
