package fakeserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/external"
	"github.com/mcp-metarouter/metarouter/test/fakeserver"
	"github.com/mcp-metarouter/metarouter/test/internal/protocol"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

func TestOffers(t *testing.T) {
	c := fake(t, false, "-tools", "task", "-prompts", "a,b", "-resources", "fake://x", "-complete", "-logging", "-era", "both")
	got, err := c.Initialize(deadline(t))
	want := `"capabilities":{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true,"subscribe":true},"completions":{},"logging":{}}`
	if err != nil || !strings.Contains(string(got), want) {
		t.Errorf("initialize: %s, %v", got, err)
	}
	if got, err = c.Discover(deadline(t)); err != nil || !strings.Contains(string(got), `"extensions":{"io.modelcontextprotocol/tasks":{}}`) {
		t.Errorf("discover: %s, %v", got, err)
	}
	c = fake(t, true)
	for _, method := range []string{"prompts/list", "resources/list", "resources/templates/list", "resources/subscribe", "completion/complete", "logging/setLevel"} {
		if _, err := c.Request(deadline(t), method, nil); code(err) != -32601 {
			t.Errorf("%s: %v", method, err)
		}
	}
}

func TestPromptsAndResources(t *testing.T) {
	c := fake(t, true, "-tools", "grow_prompts,grow_resources,touch", "-prompts", "a,b,c", "-page", "2",
		"-resources", "fake://x,fake://x.bin", "-templates", "fake://t/{name}", "-complete")
	for list, want := range map[string]int{"prompts": 3, "resources": 2} {
		if items, err := mcptest.List(deadline(t), c, list+"/list", list); err != nil || len(items) != want {
			t.Errorf("%s: %s, %v", list, items, err)
		}
	}
	for method, test := range map[string]struct{ params, want string }{
		"prompts/get":         {`{"name":"b","arguments":{"topic":"\u00e9"}}`, `b with {\"topic\":\"\\u00e9\"}`},
		"resources/read":      {`{"uri":"fake://t/1"}`, `"text":"contents of fake://t/1"`},
		"completion/complete": {`{"ref":{"type":"ref/prompt","name":"a"},"argument":{"name":"topic","value":"f"}}`, `["f1","f2","a"]`},
	} {
		if got, err := c.Request(deadline(t), method, json.RawMessage(test.params)); err != nil || !strings.Contains(string(got), test.want) {
			t.Errorf("%s: %s, %v", method, got, err)
		}
	}
	var e *mcptest.Error
	if _, err := c.Request(deadline(t), "resources/read", json.RawMessage(`{"uri":"fake://y"}`)); !errors.As(err, &e) || e.Code != -32002 || string(e.Data) != `{"uri":"fake://y"}` {
		t.Errorf("unknown resource: %v", err)
	}
	if _, err := c.Request(deadline(t), "prompts/get", json.RawMessage(`{"name":"z"}`)); code(err) != -32602 {
		t.Errorf("unknown prompt: %v", err)
	}

	mustCall(t, c, "touch", json.RawMessage(`{"uri":"fake://x"}`))
	if _, err := c.Request(deadline(t), "resources/subscribe", json.RawMessage(`{"uri":"fake://x"}`)); err != nil {
		t.Error(err)
	}
	mustCall(t, c, "touch", json.RawMessage(`{"uri":"fake://x"}`))
	mustCall(t, c, "grow_prompts", nil)
	mustCall(t, c, "grow_resources", nil)
	for _, want := range []string{"resources/updated", "prompts/list_changed", "resources/list_changed"} {
		if n := <-c.Notifications; n.Method != "notifications/"+want {
			t.Errorf("%s, want %s", n.Method, want)
		}
	}
	if len(c.Notifications) > 0 {
		t.Errorf("%v", <-c.Notifications)
	}
}

const sampled = `{"role":"assistant","content":{"type":"text","text":"4"}, "model":"m" ,"x":9007199254740993}`

func TestAskLegacy(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "trace")
	c := fake(t, false, "-tools", "ask,later,roots", "-ask-roots", "-trace", trace)
	c.Declare(`{"roots":{}}`)
	asked := make(chan string, 100)
	c.OnRequest(func(method string, params json.RawMessage) (json.RawMessage, *mcptest.Error) {
		asked <- method
		switch {
		case method == "roots/list":
			return json.RawMessage(`{"roots":[]}`), nil
		case strings.Contains(string(params), "refuse"):
			return nil, &mcptest.Error{Code: -1, Message: "no"}
		}
		return json.RawMessage(sampled), nil
	})
	if _, err := c.Initialize(deadline(t)); err != nil {
		t.Fatal(err)
	}
	mcptest.WaitFor(t, "the roots", func() bool { return mustCall(t, c, "roots", nil) == textResult(`{"roots":[]}`) })
	c.Notify("notifications/roots/list_changed", nil)
	if first, second := <-asked, <-asked; first != "roots/list" || second != "roots/list" {
		t.Errorf("asked %s and %s", first, second)
	}
	if got := mustCall(t, c, "ask", json.RawMessage(`{"method":"sampling/createMessage","rounds":2}`)); got != textResult(sampled+"\n"+sampled) {
		t.Errorf("ask: %s", got)
	}
	if got := mustCall(t, c, "ask", json.RawMessage(`{"method":"elicitation/create","params":{"message":"refuse"}}`)); got != textResult(`{"code":-1,"message":"no"}`) {
		t.Errorf("ask: %s", got)
	}
	mustCall(t, c, "later", json.RawMessage(`{"method":"sampling/createMessage"}`))
	mcptest.WaitFor(t, "the answer to what was asked later", func() bool {
		b, _ := os.ReadFile(trace)
		return strings.Contains(string(b), "\nlater "+sampled)
	})
}

func TestAskModern(t *testing.T) {
	c := fake(t, false, "-tools", "ask,capabilities", "-era", "modern")
	c.Declare(`{"sampling":{"x":1}}`)
	if _, err := c.Discover(deadline(t)); err != nil {
		t.Fatal(err)
	}
	if got := mustCall(t, c, "capabilities", nil); !strings.Contains(got, `"text":"{\"sampling\":{\"x\":1}}"`) {
		t.Errorf("capabilities: %s", got)
	}
	if _, err := c.Call(deadline(t), "ask", json.RawMessage(`{"method":"roots/list"}`)); code(err) != -32021 {
		t.Errorf("without the capability: %v", err)
	}
	arguments := json.RawMessage(`{"method":"sampling/createMessage","rounds":2}`)
	params := map[string]any{"name": "ask", "arguments": arguments}
	var p struct {
		ResultType, RequestState string
		InputRequests            map[string]struct{ Method string }
	}
	for round := range 2 {
		result, err := c.Request(deadline(t), "tools/call", params)
		if err != nil || json.Unmarshal(result, &p) != nil || p.ResultType != "input_required" || len(p.InputRequests) != round+1 {
			t.Fatalf("round %d: %s, %v", round+1, result, err)
		}
		responses := map[string]json.RawMessage{}
		for key := range p.InputRequests {
			responses[key] = json.RawMessage(sampled)
		}
		params = map[string]any{"name": "ask", "arguments": arguments, "requestState": p.RequestState, "inputResponses": responses}
	}
	for key, value := range map[string]any{"requestState": p.RequestState + "x", "arguments": json.RawMessage(`{"method":"sampling/createMessage"}`)} {
		was := params[key]
		params[key] = value
		if result, err := c.Request(deadline(t), "tools/call", params); code(err) != -32602 {
			t.Errorf("another %s: %s, %v", key, result, err)
		}
		params[key] = was
	}
	result, err := c.Request(deadline(t), "tools/call", params)
	if compact := strings.ReplaceAll(sampled, " ", ""); err != nil || !strings.Contains(string(result), string(protocol.Encode(compact+"\n"+compact))) {
		t.Errorf("at last %s, %v", result, err)
	}
}

func TestLogLevels(t *testing.T) {
	c := fake(t, true, "-tools", "log", "-logging", "-era", "both")
	heard := func(params string) int {
		x, err := c.Exchange(deadline(t), "tools/call", json.RawMessage(params))
		if err != nil {
			t.Fatal(err)
		}
		return len(x.Before)
	}
	if n := heard(`{"name":"log","arguments":{"level":"debug","n":3}}`); n != 3 {
		t.Errorf("%d messages before a level was set", n)
	}
	if _, err := c.Request(deadline(t), "logging/setLevel", json.RawMessage(`{"level":"error"}`)); err != nil {
		t.Error(err)
	}
	if n := heard(`{"name":"log","arguments":{"level":"warning"}}`) + heard(`{"name":"log","arguments":{"level":"error"}}`); n != 1 {
		t.Errorf("%d messages", n)
	}
	c.Discover(deadline(t))
	if n := heard(`{"name":"log","arguments":{"level":"error"}}`); n != 0 {
		t.Errorf("%d messages without a level", n)
	}
	if n := heard(`{"name":"log","arguments":{"level":"error"},"_meta":{"io.modelcontextprotocol/logLevel":"info"}}`); n != 1 {
		t.Errorf("%d messages", n)
	}
}

func TestTasks(t *testing.T) {
	c := fake(t, false, "-tools", "task", "-era", "modern")
	c.Discover(deadline(t))
	if got := mustCall(t, c, "task", nil); !strings.Contains(got, "done at once") {
		t.Errorf("without the extension: %s", got)
	}
	if _, err := c.Request(deadline(t), "tasks/get", json.RawMessage(`{"taskId":"task-1"}`)); code(err) != -32021 {
		t.Errorf("without the extension: %v", err)
	}
	c.Declare(`{"extensions":{"io.modelcontextprotocol/tasks":{}}}`)
	for i, id := range []string{"task-1", "task-2"} {
		if got := mustCall(t, c, "task", nil); !strings.Contains(got, `"resultType":"task","taskId":"`+id+`","status":"working"`) {
			t.Errorf("task %d: %s", i+1, got)
		}
	}
	for _, step := range []struct{ method, id, want string }{
		{"tasks/get", "task-1", `"status":"working"`},
		{"tasks/update", "task-1", `"resultType":"complete"`},
		{"tasks/get", "task-1", `"result":{"content":[{"type":"text","text":"done as a task"}]}`},
		{"tasks/cancel", "task-2", `"resultType":"complete"`},
		{"tasks/get", "task-2", `"status":"cancelled"`},
	} {
		if got, err := c.Request(deadline(t), step.method, map[string]string{"taskId": step.id}); err != nil || !strings.Contains(string(got), step.want) {
			t.Errorf("%s %s: %s, %v", step.method, step.id, got, err)
		}
	}
	if _, err := c.Request(deadline(t), "tasks/get", json.RawMessage(`{"taskId":"task-9"}`)); code(err) != -32602 {
		t.Errorf("unknown task: %v", err)
	}
}

// What comes before the answer is that, and what comes after is not.
func TestExchange(t *testing.T) {
	c := fake(t, true, "-tools", "progress,hang", "-trace", filepath.Join(t.TempDir(), "trace"))
	for range 100 {
		x, err := c.Exchange(deadline(t), "tools/call", json.RawMessage(`{"name":"progress","arguments":{"n":5},"_meta":{"progressToken":9007199254740993}}`))
		if err != nil || len(x.Before) != 5 || string(x.Before[4].Params) != `{"progressToken":9007199254740993,"progress":5,"total":5}` {
			t.Fatalf("%+v, %v", x, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	x, err := c.Exchange(ctx, "tools/call", json.RawMessage(`{"name":"hang"}`))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	mcptest.WaitFor(t, "the cancellation", func() bool {
		b, _ := os.ReadFile(c.Cmd.Args[slices.Index(c.Cmd.Args, "-trace")+1])
		return strings.HasSuffix(string(b), "\ncancelled "+x.ID+"\n")
	})
}

// The everything-server speaks both eras over stdio, or only one.
func TestOnlyEra(t *testing.T) {
	path := external.EverythingServer(t)
	for _, era := range []string{"", "legacy", "modern"} {
		command, args := path, []string(nil)
		if era != "" {
			command, args = fakeserver.OnlyEra(era, path)
		}
		legacyClient, modernClient := mcptest.Start(t, command, args, t.TempDir(), nil), mcptest.Start(t, command, args, t.TempDir(), nil)
		_, err := legacyClient.Initialize(deadline(t))
		if (era == "modern") != (code(err) == -32601) || era != "modern" && err != nil {
			t.Errorf("initialize, only %q: %v", era, err)
		}
		_, err = modernClient.Discover(deadline(t))
		if (era == "legacy") != (code(err) == -32601) || era != "legacy" && err != nil {
			t.Errorf("server/discover, only %q: %v", era, err)
		}
		if err := legacyClient.Close(); err != nil {
			t.Error(err)
		}
	}
}
