//go:build unix

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

func (c *cell) tools(t *testing.T) {
	all, err := mcptest.List(within(t), c, "tools/list", "tools")
	if err != nil || len(all) < 12 {
		t.Fatalf("%d tools, %v", len(all), err)
	}
	if got := c.text(t, "echo", map[string]any{"message": "a"}); got != `{"message":"a"}` {
		t.Errorf("echo: %s", got)
	}
}

// question makes the server ask the client and returns the question as the client received it.
// The client's answer has to reach the server byte for byte.
func (c *cell) question(t *testing.T, method, params string) string {
	t.Helper()
	asked := make(chan string, 10)
	c.listenIn(t, func(m string, p json.RawMessage) {
		if m == method {
			asked <- string(p)
		}
	})
	arguments := map[string]any{"method": method}
	if params != "" {
		arguments["params"] = json.RawMessage(params)
	}
	if got := c.text(t, "ask", arguments); got != answers[method] {
		t.Errorf("the server received %s, the client answered %s", got, answers[method])
	}
	select {
	case p := <-asked:
		return p
	default:
		t.Fatal("the client was not asked")
		return ""
	}
}

// listenIn calls f with each question to the client until the test ends.
func (c *cell) listenIn(t *testing.T, f func(method string, params json.RawMessage)) {
	reply := func(method string, params json.RawMessage) json.RawMessage {
		f(method, params)
		return answer(method, params)
	}
	c.session.answers = reply
	c.OnRequest(func(method string, params json.RawMessage) (json.RawMessage, *mcptest.Error) {
		if c.modern && method != "ping" {
			t.Errorf("a modern client received the request %s", method)
		}
		return reply(method, params), nil
	})
}

func (c *cell) sampling(t *testing.T) {
	const params = `{"messages":[{"role":"user","content":{"type":"text","text":"2+2?"}}],"maxTokens":10,"unknown":9007199254740993}`
	if got := c.question(t, "sampling/createMessage", params); !strings.Contains(got, "2+2?") || !strings.Contains(got, `"unknown":9007199254740993`) {
		t.Errorf("the client was asked %s", got)
	}
}

func (c *cell) elicitationForm(t *testing.T) {
	const schema = `{"type":"object","properties":{"name":{"type":"string","unknown":9007199254740993}},"required":["name"]}`
	got := c.question(t, "elicitation/create", `{"mode":"form","message":"Your name?","requestedSchema":`+schema+`}`)
	if !strings.Contains(got, "Your name?") || !strings.Contains(got, schema) {
		t.Errorf("the client was asked %s", got)
	}
}

func (c *cell) elicitationURL(t *testing.T) {
	params := `{"mode":"url","message":"Log in","url":"https://example.invalid/login?a=b"`
	if c.serverEra == "legacy" {
		params += `,"elicitationId":"e1"`
	}
	got := c.question(t, "elicitation/create", params+"}")
	if !strings.Contains(got, `"mode":"url"`) || !strings.Contains(got, `"url":"https://example.invalid/login?a=b"`) {
		t.Errorf("the client was asked %s", got)
	}
}

func (c *cell) roots(t *testing.T) {
	if c.nameless() {
		defer func(without *session) { c.session = without }(c.session)
		c.session = c.another()
		c.question(t, "roots/list", "")
		c.question(t, "roots/list", "") // the process knows the roots already
		return
	}
	c.question(t, "roots/list", "")
	if c.clientEra == "modern" || c.serverEra == "modern" {
		return // only legacy clients send this notification, and only legacy servers use it
	}
	told := func() bool { return c.text(t, "roots", nil) == answers["roots/list"] }
	mcptest.WaitFor(t, "the server to be told the roots", told)
	asked := make(chan string, 10)
	c.listenIn(t, func(method string, _ json.RawMessage) { asked <- method })
	if err := c.Notify("notifications/roots/list_changed", nil); err != nil {
		t.Fatal(err)
	}
	select {
	case <-asked:
	case <-time.After(time.Minute):
		t.Error("the server did not ask again after the roots had changed")
	}
}

func (c *cell) rounds(t *testing.T) {
	one := answers["elicitation/create"]
	if got := c.text(t, "ask", map[string]any{"method": "elicitation/create", "rounds": 3}); got != one+"\n"+one+"\n"+one {
		t.Errorf("the server received %s", got)
	}
}

// A requestState comes back unchanged and belongs to one request.
func (c *cell) requestState(t *testing.T) {
	if c.clientEra == "legacy" {
		return // a legacy client never gets a requestState
	}
	ctx := within(t)
	params := map[string]any{"name": "ask", "arguments": map[string]any{"method": "elicitation/create"}}
	first, err := c.Request(ctx, "tools/call", params)
	if err != nil {
		t.Fatal(err)
	}
	var p pause
	if json.Unmarshal(first, &p); p.ResultType != "input_required" || len(p.InputRequests) != 1 || p.RequestState == nil {
		t.Fatalf("the call was answered %s", first)
	}
	retry := c.answered(params, p)
	tampered, other := clone(retry), clone(retry)
	tampered["requestState"] = alter(*p.RequestState)
	other["arguments"] = map[string]any{"method": "elicitation/create", "rounds": 2}
	for what, bad := range map[string]map[string]any{"altered": tampered, "of another call": other} {
		result, err := c.Request(ctx, "tools/call", bad)
		if e := (*mcptest.Error)(nil); !errors.As(err, &e) {
			t.Errorf("a requestState that is %s was answered %s, %v", what, result, err)
		}
	}
	result, err := c.Request(ctx, "tools/call", retry)
	if err != nil || decode(t, result).text() != answers["elicitation/create"] {
		t.Errorf("the retry was answered %s, %v", result, err)
	}
}

func clone(m map[string]any) map[string]any {
	c := map[string]any{}
	for k, v := range m {
		c[k] = v
	}
	return c
}

// alter changes a character in the middle.
func alter(state string) string {
	b := []byte(state)
	if i := len(b) / 2; b[i] == 'A' {
		b[i] = 'B'
	} else {
		b[i] = 'A'
	}
	return string(b)
}

// A question that belongs to no call reaches a legacy client. A modern client cannot be asked, so
// the server gets an error.
func (c *cell) outOfTheBlue(t *testing.T) {
	if c.serverEra == "modern" {
		return // a modern server asks only in results
	}
	c.text(t, "later", map[string]any{"method": "roots/list"})
	got := c.awaitTrace(t, "later ")
	if c.clientEra == "legacy" && got != "later "+answers["roots/list"] {
		t.Errorf("the server received %s", got)
	}
	if c.clientEra == "modern" && !strings.Contains(got, `"code"`) && !strings.Contains(got, `"roots":[]`) {
		t.Errorf("the server received %s, want an error or no roots", got)
	}
}

// A question that the server cancels is cancelled at the client.
func (c *cell) withdrawn(t *testing.T) {
	if c.clientEra == "modern" || c.serverEra == "modern" {
		return // questions of a modern server are results
	}
	c.forget()
	over := make(chan struct{})
	t.Cleanup(func() { close(over) })
	c.listenIn(t, func(method string, _ json.RawMessage) {
		if method == "elicitation/create" {
			<-over
		}
	})
	got := c.text(t, "ask", map[string]any{
		"method": "elicitation/create", "giveUpMs": 3000, // by then the client has the question
		"params": json.RawMessage(`{"message":"Your name?","requestedSchema":{"type":"object","properties":{}}}`),
	})
	if got != `"gave up"` {
		t.Errorf("the server received %s", got)
	}
	if n := c.await(t, "notifications/cancelled"); !strings.Contains(string(n.Params), "requestId") {
		t.Errorf("the client received %s", n.Params)
	}
}

// Progress has the client's own token, is in order, and comes before the result.
func (c *cell) progress(t *testing.T) {
	for _, token := range []string{`"a string"`, `7`, `9007199254740993`} {
		x, err := c.Exchange(within(t), "tools/call", map[string]any{
			"name": "progress", "arguments": map[string]any{"n": 50},
			"_meta": map[string]any{"progressToken": json.RawMessage(token)},
		})
		if err != nil {
			t.Fatal(err)
		}
		var got, want []string
		for _, n := range x.Before {
			if n.Method == "notifications/progress" {
				got = append(got, string(n.Params))
			}
		}
		for i := range 50 {
			want = append(want, fmt.Sprintf(`{"progressToken":%s,"progress":%d,"total":50}`, token, i+1))
		}
		if !slices.Equal(got, want) {
			t.Errorf("before the result with the token %s there came %d notifications: %s", token, len(got), got)
		}
	}
}

// Log messages come before the result, and only those that the client wants.
func (c *cell) logging(t *testing.T) {
	heard := func(level, least string) int {
		t.Helper()
		params := map[string]any{"name": "log", "arguments": map[string]any{"level": level, "n": 2}}
		if c.modern && least != "" {
			params["_meta"] = map[string]any{"io.modelcontextprotocol/logLevel": least}
		}
		if !c.modern {
			c.must(t, "logging/setLevel", map[string]any{"level": least})
		}
		x, err := c.Exchange(within(t), "tools/call", params)
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, notification := range x.Before {
			if notification.Method == "notifications/message" {
				n++
			}
		}
		return n
	}
	if n := heard("error", "warning"); n != 2 {
		t.Errorf("the client received %d errors, want 2", n)
	}
	if n := heard("info", "warning"); n != 0 {
		t.Errorf("the client received %d messages below the level", n)
	}
	if c.elsewhere { // where a level counts a moment later
		mcptest.WaitFor(t, "messages after the level was lowered", func() bool { return heard("debug", "debug") == 2 })
	}
	if n := heard("debug", "debug"); n != 2 {
		t.Errorf("the client received %d messages after the level was lowered, want 2", n)
	}
	if c.modern {
		if n := heard("emergency", ""); n != 0 {
			t.Errorf("a request without a level received %d messages", n)
		}
	}
}

// A call that the client cancels is cancelled at the server, with the id that the server knows.
func (c *cell) cancellation(t *testing.T) {
	ctx, cancel := context.WithCancel(within(t))
	ended := make(chan error, 1)
	go func() {
		_, err := c.Request(ctx, "tools/call", map[string]any{"name": "hang", "arguments": map[string]any{}})
		ended <- err
	}()
	var m struct {
		ID     json.RawMessage
		Method string
	}
	mcptest.WaitFor(t, "the call to reach the server", func() bool {
		i := slices.IndexFunc(c.traced(t), func(line string) bool {
			return strings.Contains(line, `"tools/call"`) && strings.Contains(line, `"hang"`)
		})
		return i >= 0 && json.Unmarshal([]byte(c.traced(t)[i]), &m) == nil
	})
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the call ended with %v", err)
	}
	c.awaitTrace(t, "cancelled "+string(m.ID))
}

func (c *cell) prompts(t *testing.T) {
	if all := c.must(t, "prompts/list", map[string]any{}); !strings.Contains(all, `"name":"hello"`) || !strings.Contains(all, `"name":"ask"`) {
		t.Errorf("listed %s", all)
	}
	got := c.must(t, "prompts/get", map[string]any{"name": "hello", "arguments": json.RawMessage(`{"topic":"fish"}`)})
	if !strings.Contains(got, `hello with {\"topic\":\"fish\"}`) {
		t.Errorf("hello is %s", got)
	}
	got = c.must(t, "prompts/get", map[string]any{"name": "ask"})
	if want, _ := json.Marshal(answers["elicitation/create"]); !strings.Contains(got, string(want)) {
		t.Errorf("the prompt that asks is %s", got)
	}
	if result, err := c.Request(within(t), "prompts/get", map[string]any{"name": "unknown"}); codeOf(err) != -32602 {
		t.Errorf("an unknown prompt is %s, %v", result, err)
	}
}

func (c *cell) resources(t *testing.T) {
	if all := c.must(t, "resources/list", map[string]any{}); !strings.Contains(all, `"fake://a"`) || !strings.Contains(all, `"fake://b.bin"`) {
		t.Errorf("listed %s", all)
	}
	if all := c.must(t, "resources/templates/list", map[string]any{}); !strings.Contains(all, `"uriTemplate":"fake://t/{name}"`) {
		t.Errorf("listed %s", all)
	}
	for uri, want := range map[string]string{
		"fake://a":      `"text":"contents of fake://a"`,
		"fake://b.bin":  `"blob":"Y29udGVudHMgb2YgZmFrZTovL2IuYmlu"`,
		"fake://t/tree": `"text":"contents of fake://t/tree"`,
		"fake://x/ask":  `9007199254740993`, // the client's answer
	} {
		if got := c.must(t, "resources/read", map[string]any{"uri": uri}); !strings.Contains(got, want) || !strings.Contains(got, `"uri":"`+uri+`"`) {
			t.Errorf("%s is %s", uri, got)
		}
	}
	_, err := c.Request(within(t), "resources/read", map[string]any{"uri": "fake://nothing"})
	e := (*mcptest.Error)(nil)
	if code := codeOf(err); code != -32602 && (c.modern || code != -32002) || errors.As(err, &e) && !strings.Contains(string(e.Data), "fake://nothing") {
		t.Errorf("an unknown resource: %v", err)
	}
}

func codeOf(err error) int {
	if e := (*mcptest.Error)(nil); errors.As(err, &e) {
		return e.Code
	}
	return 0
}

func (c *cell) completion(t *testing.T) {
	for ref, want := range map[string]string{
		`{"type":"ref/prompt","name":"hello"}`:            `["fi1","fi2","hello"]`,
		`{"type":"ref/resource","uri":"fake://t/{name}"}`: `["fi1","fi2","fake://t/{name}"]`,
	} {
		got := c.must(t, "completion/complete", map[string]any{
			"ref": json.RawMessage(ref), "argument": map[string]string{"name": "topic", "value": "fi"},
		})
		if !strings.Contains(got, `"values":`+want) {
			t.Errorf("%s completes to %s", ref, got)
		}
	}
}

// listening opens a subscriptions/listen for the rest of the test, and returns a function that
// checks a notification of it.
func (c *cell) listening(t *testing.T, filter map[string]any) func(mcptest.Notification) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.Request(ctx, "subscriptions/listen", map[string]any{"notifications": filter})
	}()
	t.Cleanup(func() { cancel(); <-ended })
	id := subscription(c.await(t, "notifications/subscriptions/acknowledged"))
	if id == "" {
		t.Error("the acknowledgement has no subscription id")
	}
	return func(n mcptest.Notification) {
		t.Helper()
		if subscription(n) != id {
			t.Errorf("%s %s does not belong to the subscription %s", n.Method, n.Params, id)
		}
	}
}

func subscription(n mcptest.Notification) string {
	var p struct {
		Meta map[string]json.RawMessage `json:"_meta"`
	}
	json.Unmarshal(n.Params, &p)
	return string(p.Meta["io.modelcontextprotocol/subscriptionId"])
}

func (c *cell) subscriptions(t *testing.T) {
	const updated = "notifications/resources/updated"
	c.forget()
	belongs := func(mcptest.Notification) {}
	if c.modern {
		belongs = c.listening(t, map[string]any{"resourceSubscriptions": []string{"fake://a"}})
	} else {
		c.must(t, "resources/subscribe", map[string]any{"uri": "fake://a"})
	}
	mcptest.WaitFor(t, "the server to have the subscription", func() bool { // a router may answer before
		return slices.ContainsFunc(c.traced(t), func(line string) bool {
			return strings.Contains(line, `"fake://a"`) && (strings.Contains(line, `"resources/subscribe"`) || strings.Contains(line, `"subscriptions/listen"`))
		})
	})
	c.text(t, "touch", map[string]any{"uri": "fake://b.bin"})
	c.text(t, "touch", map[string]any{"uri": "fake://a"})
	n := c.await(t, updated)
	if belongs(n); !strings.Contains(string(n.Params), `"uri":"fake://a"`) {
		t.Errorf("%s", n.Params)
	}
	if c.modern {
		return
	}
	c.must(t, "resources/unsubscribe", map[string]any{"uri": "fake://a"})
	c.text(t, "touch", map[string]any{"uri": "fake://a"})
	c.none(t, updated)
}

func (c *cell) changes(t *testing.T) {
	c.forget()
	belongs := func(mcptest.Notification) {}
	if c.modern {
		belongs = c.listening(t, map[string]any{"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true})
	}
	for _, list := range []struct{ kind, tool string }{
		{"tools", "grow"}, {"prompts", "grow_prompts"}, {"resources", "grow_resources"},
	} {
		name := strings.TrimPrefix(c.text(t, list.tool, map[string]any{}), "added ")
		for { // until the list has it
			belongs(c.await(t, "notifications/"+list.kind+"/list_changed"))
			if strings.Contains(c.must(t, list.kind+"/list", map[string]any{}), `"`+name+`"`) {
				break
			}
		}
	}
}
