package transport

import (
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

func TestBatchIsBounded(t *testing.T) {
	p, _ := pair(t)
	taken := 0
	receiveAll(p.Conn, []byte("["+strings.Repeat("1,", 1<<20)+"1]"), func(wire.Message) error { taken++; return nil })
	if strays := reported(p).StrayLines; taken > 0 || strays != maxBatch+1 {
		t.Errorf("took %d and skipped %d", taken, strays)
	}
	receiveAll(p.Conn, []byte(`[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","method":"b"}]`), func(wire.Message) error { taken++; return nil })
	expect.Equal(t, taken, 2, "took … of a batch of two")
	receiveAll(p.Conn, []byte("[\n  {\"jsonrpc\": \"2.0\", \"method\": \"a\",\n    \"params\": {\n      \"b\": 1\n    }\n  }\n]\n"), func(m wire.Message) error {
		expect.Equal(t, string(m.Params), `{"b":1}`, "passed on …")
		return nil
	})
}

// What a server says of retrying is kept within bounds, and backed off from.
func TestReconnectPause(t *testing.T) {
	var at position
	at.note(wire.Event{Retry: time.Millisecond})
	for _, want := range []time.Duration{1, 2, 4, 8} {
		expect.Equal(t, at.wait(), want*leastRetry, "waits")
	}
	at.note(wire.Event{})
	expect.Equal(t, at.wait(), leastRetry, "waits … after an event")
	at.note(wire.Event{Retry: 24 * time.Hour})
	expect.Equal(t, at.wait(), mostRetry, "waits … at most")
}
