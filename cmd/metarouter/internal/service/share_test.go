package service

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/configfile"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/daemon"
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

// Routers that let no client in count, also after one that has served for long.
func TestRoutersThatEndAtOnce(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		served time.Duration
		lost   int // routers, with the one that has served
	}{{time.Second, maxLost}, {time.Hour, 1}} {
		s := &sharing{process: &process{Runner: &Runner{Files: &configfile.Source{}}, log: zap.NewNop(), named: true}, lost: maxLost - 1, since: time.Now().Add(-tt.served)}
		s.session.Store(new(daemon.Session))
		_, err := s.connect(ctx, false)
		if err == nil || s.lost != tt.lost {
			t.Errorf("after one that has served %v, %d are lost, %v; want %d", tt.served, s.lost, err, tt.lost)
		}
		s.noteLost(daemon.ErrLost, false)
		expect.Equal(t, s.lost, tt.lost+1, "after another one")
	}
}
