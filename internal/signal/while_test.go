package signal

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// The context ends for the cause when the condition does, and stop waits for a question that is under way.
func TestWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked, ended, why := 0, false, errors.New("removed")
		ctx, stop := While(t.Context(), time.Minute, func(context.Context) bool { asked++; return asked < 3 }, why)
		<-ctx.Done()
		time.Sleep(time.Hour)
		if stop(); asked != 3 || context.Cause(ctx) != why {
			t.Errorf("asked %d times, ended for the cause %v", asked, context.Cause(ctx))
		}
		ctx, stop = While(t.Context(), time.Minute, func(ctx context.Context) bool { <-ctx.Done(); time.Sleep(time.Second); ended = true; return false }, why)
		time.Sleep(2 * time.Minute)
		if stop(); !ended || context.Cause(ctx) != context.Canceled {
			t.Errorf("ended after the last question: %t, for the cause %v", ended, context.Cause(ctx))
		}
	})
}
