package transport

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/peer"
)

// maxBatch bounds the messages that are taken of a batch.
const maxBatch = 1000

// receiveAll calls f for each message in data, which holds one message or a batch.
// The Conn skips elements that are no message.
func receiveAll(c *peer.Conn, data []byte, f func(wire.Message) error) {
	if wire.HasLineEnd(data) { // it would end a line of another link, and a model would pay for the indentation
		var compact bytes.Buffer
		if err := json.Compact(&compact, data); err != nil {
			c.SkipLine(data, wire.Ends{Head: data, Tail: data}, err)
			return
		}
		data = compact.Bytes()
	}
	take := func(one []byte) {
		m, err := wire.Parse(one)
		if err == nil {
			err = f(m)
		}
		if err != nil {
			c.SkipLine(one, wire.Ends{Head: one, Tail: one}, err)
		}
	}
	batch := bytes.TrimSpace(data)
	if len(batch) == 0 || batch[0] != '[' {
		take(data)
		return
	}
	n := 0
	if err := wire.Elements(batch, func(one []byte) bool {
		take(one)
		n++
		return n < maxBatch
	}); err != nil {
		c.Budget.Skip(nil, err)
	} else if n == maxBatch {
		c.Budget.Skip(nil, fmt.Errorf("what follows %d messages in one batch", maxBatch))
	}
}
