package service

import (
	"context"
	"net/http"
	"os"
	"runtime"
	"testing"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// A service with nothing to do uses one processor, and collects garbage early until it ends.
func TestRunSavesWork(t *testing.T) {
	for _, variable := range []string{"GOMAXPROCS", "GOGC"} {
		t.Setenv(variable, "")
	}
	before, percent := runtime.GOMAXPROCS(2), garbagePercent()
	defer runtime.GOMAXPROCS(before)
	observers, err := OpenObservers(config.Config{}, "test", "", false, zap.NewNop())
	if err != nil {
		t.Fatal(err)
	}
	defer observers.Close()
	s := Service{
		Override: func(*config.Router) {}, Hangup: make(chan os.Signal, 1), Options: adapter.Options{Log: zap.NewNop()},
		Observers: observers, Log: zap.NewNop(), Pages: http.NewServeMux(),
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if got := garbagePercent(); got != percent {
			t.Errorf("%d percent of garbage after the end, before it were %d", got, percent)
		}
	}()
	mcptest.WaitFor(t, "one processor", func() bool { return runtime.GOMAXPROCS(0) == 1 })
	mcptest.WaitFor(t, "early collections", func() bool { return garbagePercent() == leanGarbage })
}
