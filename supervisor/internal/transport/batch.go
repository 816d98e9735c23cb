package transport

import (
	"bytes"
	"fmt"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/peer"
)

// maxBatch bounds the messages that are taken of a batch.
const maxBatch = 1000

// receiveAll calls f for each message in data, which holds one message or a batch.
// The Conn skips elements that are no message.
func receiveAll(c *peer.Conn, data []byte, f func(wire.Message) error) {
	take := func(one []byte) {
		m, err := wire.Parse(one)
		if err == nil {
			wire.OneLine(one) // a line end in it would end a line of another link
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
