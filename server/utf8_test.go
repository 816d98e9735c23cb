package server

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/selector"
)

// What a client sends reaches servers as UTF-8 only: strict servers end at anything else.
func TestClientNotUTF8(t *testing.T) {
	r := newFake(tool("a", "b"))
	var got []string
	r.execute = func(_ context.Context, c selector.Call) (selector.Result, error) {
		got = append(got, string(c.Arguments))
		return selector.Result{JSON: json.RawMessage(`{"content":[]}`)}, nil
	}
	c := connect(t, r, Options{Mode: exposure.Direct})
	c.initialize()
	call := func(id, argument string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"a__b","arguments":{"x":"` + argument + `"}}}`
	}
	c.want(call("7", "caf\xe9"), `{"jsonrpc":"2.0","id":7,"error":{"code":-32700,"message":"the message is not UTF-8"}}`)
	c.want(call("\"\xff\"", "x"), `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"the message is not UTF-8"}}`)
	c.want(call("8", `é \ud83e\udd89 \ud800 \\ud800`), `{"jsonrpc":"2.0","id":8,"result":{"content":[]}}`)
	if len(got) != 1 || got[0] != `{"x":"é \ud83e\udd89 \ufffd \\ud800"}` {
		t.Errorf("executed with %q", got)
	}
}

// A server whose question a client answers with other bytes does not wait for a better answer.
func TestClientAnswersNotUTF8(t *testing.T) {
	r := newFake(tool("a", "b"))
	ended := r.asking("elicitation/create")
	c := connect(t, r, Options{Mode: exposure.Direct})
	c.wantPrefix(strings.Replace(initializing, `"capabilities":{}`, `"capabilities":{"elicitation":{}}`, 1), `{"jsonrpc":"2.0","id":"init","result":{`)
	c.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__b"}}`)
	c.receive()
	c.want("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"action\":\"accept\",\"content\":{\"x\":\"caf\xe9\"}}}", `{"jsonrpc":"2.0","id":1,"error":{"code":-32700,"message":"the message is not UTF-8"}}`)
	<-ended
}
