package service

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// Shared routers that end one after the other are started at longer and longer intervals.
func TestPauseAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var waited time.Duration
		for lost, want := range []time.Duration{0, 0, 0, 1, 2, 4, 8, 16, 30, 30} {
			began := time.Now()
			expect.OK(t, pauseAfter(t.Context(), lost))
			expect.Equal(t, time.Since(began), want*time.Second, "after %d", lost)
			waited += want * time.Second
		}
		if waited > 2*time.Minute {
			t.Errorf("a client without a router waits for %v", waited)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if pauseAfter(ctx, maxLost) == nil {
			t.Error("a client that has left waits")
		}
	})
}
