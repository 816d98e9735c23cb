package transport

import (
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/sse"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestBatchIsBounded(t *testing.T) {
	p, _ := pair(t)
	taken := 0
	receiveAll(p.Conn, []byte("["+strings.Repeat("1,", 1<<20)+"1]"), func(wire.Message) error { taken++; return nil })
	if strays := p.Strays.Count(); taken > 0 || strays != maxBatch+1 {
		t.Errorf("took %d and skipped %d", taken, strays)
	}
	receiveAll(p.Conn, []byte(`[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","method":"b"}]`), func(wire.Message) error { taken++; return nil })
	if taken != 2 {
		t.Errorf("took %d of a batch of two", taken)
	}
}

// What a server says of retrying is kept within bounds, and backed off from.
func TestReconnectPause(t *testing.T) {
	var at position
	at.note(sse.Event{Retry: time.Millisecond})
	for _, want := range []time.Duration{1, 2, 4, 8} {
		expect.Equal(t, at.wait(), want*leastRetry, "waits")
	}
	at.note(sse.Event{})
	if got := at.wait(); got != leastRetry {
		t.Errorf("waits %v after an event", got)
	}
	at.note(sse.Event{Retry: 24 * time.Hour})
	if got := at.wait(); got != mostRetry {
		t.Errorf("waits %v at most", got)
	}
}
