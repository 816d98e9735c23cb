package reload

import (
	"errors"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/test/layer"
)

func TestWatchWithoutTheSystem(t *testing.T) {
	layer.Integration(t)
	w := &watcher{log: zap.NewNop()}
	w.pollSince(errors.New("no watches left"))
	defer w.Close()
	if w.Follow([]string{"x"}) {
		t.Error("something is watched")
	}
	select {
	case <-w.Poll:
	case <-time.After(30 * time.Second):
		t.Error("nothing is polled")
	}
}
