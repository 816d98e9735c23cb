package httpd

import (
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
)

// left is the owner of a stream whose client has left.
type left struct{}

func (left) follow() bool { return false }
func (left) cut()         {}

// A question of a server can't reach a client that has left, and fails at once.
func TestSendToClientThatLeft(t *testing.T) {
	s := newStream("1")
	s.opens(left{})
	expect.Equal(t, s.Send([]byte(`{"jsonrpc":"2.0","id":1,"method":"elicitation/create"}`)), errStreamEnded)
}
