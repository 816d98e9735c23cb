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
		if !Within(ctx.Done(), interval) && Poll(ctx, interval, func() bool { return !holds(ctx) }) {
			cancel(why)
		}
	})
	return ctx, func() {
		cancel(nil)
		asking.Wait()
	}
}
