package stdio

import (
	"encoding/json"
	"io"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
)

// A recorder is a journal that records what it is told.
type recorder struct {
	noJournal
	calls []string
}

func (r *recorder) Begin(id []byte) int {
	r.calls = append(r.calls, "begin "+string(id))
	return 7
}
func (r *recorder) Keep(key string, _ []byte) { r.calls = append(r.calls, "keep "+key) }
func (r *recorder) Passed(*wire.Reader)       { r.calls = append(r.calls, "passed") }

// A request that comes while the router ends is left to the next one, with all that
// it would change.
func TestRequestAtTheEnd(t *testing.T) {
	const initializing = `{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`
	clients := conversation.New(conversation.Options{
		Router: left{}, Methods: map[string]conversation.Method{"initialize": {Legacy: true, Quick: true}},
		Left: func(*conversation.Conversation) {}, Secret: make([]byte, 32), Log: zap.NewNop(),
	})
	j := &recorder{}
	p := &connection{journal: j}
	p.queue = newQueue(io.Discard, j, func(error) {})
	p.conversation = clients.Open(p, conversation.Stdio, conversation.Identity{}, 0)
	p.conversation.Close()
	lines := wire.NewReader(strings.NewReader(initializing+"\n"), wire.MaxLine)
	line, err := lines.Next()
	if err != nil {
		t.Fatal(err)
	}
	if p.receive(t.Context(), line, lines) {
		t.Error("it was taken")
	}
	if len(j.calls) > 0 {
		t.Errorf("the journal has %q; the line must stay unread", j.calls)
	}
}

// left is a router that clients leave.
type left struct{}

func (left) Release(session.Client)                       {}
func (left) Tell(session.Client, string, json.RawMessage) {}
