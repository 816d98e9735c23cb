//go:build linux

package cluster

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/mcptest"
	"github.com/mcp-metarouter/metarouter/test/natsserver"
)

// A suspended call and a task end with the node that has them. For both there is only an error from then
// on, also when the node is back, since it is another router then.
func TestNodeGone(t *testing.T) {
	t.Parallel()
	hub := natsserver.Start(t)
	urls := []string{hub.URL()}
	a := newNode(t, "a", urls, entries{})
	b := newNode(t, "b", urls, entries{
		"older": fake("-tools", "ask"),
		"newer": fake("-tools", "task", "-era", "modern"),
	})
	b.cluster["share"] = []string{"*"}
	trustEachOther(a, b)
	a.start()
	b.start()
	tools := []string{"older-at-b__ask", "newer-at-b__task"}
	a.lists(tools...)

	client := mcptest.NewHTTPClient(t, "http://"+a.address+"/mcp")
	client.Declare(`{"elicitation":{"form":{}},"extensions":{"io.modelcontextprotocol/tasks":{}}}`)
	if _, err := client.Discover(within(t)); err != nil {
		t.Fatal(err)
	}
	var begun struct{ ResultType, RequestState, TaskID string }
	ask := map[string]any{"name": tools[0], "arguments": map[string]any{"method": "elicitation/create"}}
	for _, params := range []map[string]any{ask, {"name": tools[1], "arguments": map[string]any{}}} {
		raw, err := client.Request(within(t), "tools/call", params)
		if err != nil || json.Unmarshal(raw, &begun) != nil {
			t.Fatalf("%s, %v", raw, err)
		}
	}
	if begun.RequestState == "" || begun.TaskID == "" {
		t.Fatalf("no call is suspended or no task begun: %+v", begun)
	}
	ask["requestState"] = begun.RequestState
	ask["inputResponses"] = map[string]any{}
	refused := func(when, method string, params map[string]any) {
		t.Helper()
		raw, err := client.Request(within(t), method, params)
		if e, ok := errors.AsType[*mcptest.Error](err); !ok || e.Code != -32602 {
			t.Errorf("%s: %s was answered %s, %v", when, method, raw, err)
		}
	}
	b.kill()
	a.listsNot(tools[0])
	task := map[string]any{"taskId": begun.TaskID}
	refused("the node is gone", "tools/call", ask)
	refused("the node is gone", "tasks/get", task)
	b.start()
	a.lists(tools...)
	refused("the node is back", "tools/call", ask)
	refused("the node is back", "tasks/get", task)
}
