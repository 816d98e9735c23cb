//go:build unix

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// A cell is a session of a client of one era with a server of one era, through a router.
type cell struct {
	*session
	clientEra, serverEra string
	transport, backend   string                 // of the client and of the server: "stdio" or "http"
	elsewhere            bool                   // the server is on another node
	trace                string                 // the server's
	another              func() *session        // with roots, if nameless
	seen                 []mcptest.Notification // by await
}

// TestCells uses all of the protocol that is more than a request and a response, for clients and servers of both eras, each
// over stdio and HTTP: each three of these four choices are together in one of the cells.
func TestCells(t *testing.T) {
	t.Parallel()
	for i := range 8 {
		choose := func(bits int, zero, one string) string {
			if bits%2 == 1 {
				return one
			}
			return zero
		}
		c := &cell{clientEra: choose(i, "legacy", "modern"), serverEra: choose(i/2, "legacy", "modern"),
			transport: choose(i/4, "stdio", "http"), backend: choose(i+i/2+i/4, "stdio", "http")}
		t.Run(fmt.Sprintf("%s client by %s, %s server by %s", c.clientEra, c.transport, c.serverEra, c.backend), func(t *testing.T) {
			t.Parallel()
			c.open(t, prepare(t, entries{"fake": c.server(t)}, map[string]any{"listWait": "60s"}))
			c.check(t)
		})
	}
}

// server returns the entry of a fake server that offers everything.
func (c *cell) server(t *testing.T) map[string]any {
	c.trace = filepath.Join(t.TempDir(), "trace")
	flags := []string{
		"-tools", "ask,echo,progress,hang,roots,touch,grow,grow_prompts,grow_resources,later",
		"-prompts", "hello,ask", "-resources", "fake://a,fake://b.bin,fake://x/ask", "-ask-roots", "-era", c.serverEra, "-trace", c.trace,
	}
	if c.backend == "http" {
		url, _ := mcptest.Remote(t, "http", flags...)
		return map[string]any{"type": "http", "url": url}
	}
	return fake(flags...)
}

// open starts the router and begins a session with it.
func (c *cell) open(t *testing.T, s *setup) {
	const declared = `{"sampling":{},"elicitation":{"form":{},"url":{}},"roots":{"listChanged":true}}`
	if c.transport == "stdio" {
		raw := s.start("--mode", "direct", "--names", "bare")
		c.session = open(t, raw, raw.Notifications, c.clientEra, declared, answer)
		return
	}
	url, _ := s.serveHTTP("--mode", "direct", "--names", "bare")
	begin := func(capabilities string) (*session, *mcptest.HTTPClient) {
		raw := mcptest.NewHTTPClient(t, url)
		return open(t, raw, raw.Notifications, c.clientEra, capabilities, answer), raw
	}
	if c.nameless() { // with roots, the router would ask for them before each request
		c.session, _ = begin(`{"sampling":{},"elicitation":{"form":{},"url":{}}}`)
		c.another = func() *session { s, _ := begin(declared); return s }
		return
	}
	opened, raw := begin(declared)
	if c.session = opened; c.clientEra == "legacy" {
		_, err := raw.Open(t.Context())
		expect.OK(t, err, "open the GET stream")
	}
}

// nameless reports whether the router cannot recognize the client in its next request although
// the server needs that.
func (c *cell) nameless() bool {
	return c.transport == "http" && c.clientEra == "modern" && c.serverEra == "legacy"
}

// answers are the client's answers. Their bytes show whether the router changes them: a decoder
// would change the numbers and drop unknown members.
var answers = map[string]string{
	"sampling/createMessage": `{"role":"assistant","content":{"type":"text","text":"four","zeta":1,"alpha":[]},"model":"m","n":9007199254740993,"x":1.10}`,
	"elicitation/create":     `{"action":"accept","content":{"name":"Ada","n":9007199254740993},"x":1.10}`,
	"roots/list":             `{"roots":[{"uri":"file:///home/ada","name":"home","n":9007199254740993}],"x":1.10}`,
}

func answer(method string, _ json.RawMessage) json.RawMessage {
	return json.RawMessage(answers[method])
}

// check runs all checks, one after the other.
func (c *cell) check(t *testing.T) {
	for _, check := range []struct {
		name string
		run  func(*cell, *testing.T)
	}{
		{"questions", (*cell).questions}, {"roots", (*cell).roots}, {"a question out of the blue", (*cell).outOfTheBlue}, {"progress", (*cell).progress},
		{"cancellation", (*cell).cancellation}, {"subscriptions", (*cell).subscriptions}, {"lists that change", (*cell).changes},
	} {
		t.Run(check.name, func(t *testing.T) { check.run(c, t) })
	}
}

// must returns the result of a request that has to succeed.
func (c *cell) must(t *testing.T, method string, params map[string]any) string {
	t.Helper()
	result, err := c.ask(within(t), method, params)
	expect.OK(t, err, "%s", method)
	return string(result)
}

// text calls a tool and returns the text of its result.
func (c *cell) text(t *testing.T, tool string, arguments map[string]any) string {
	t.Helper()
	return decode(t, json.RawMessage(c.must(t, "tools/call", map[string]any{"name": tool, "arguments": arguments}))).text()
}

// await returns the first notification of the method that comes or has come since forget.
func (c *cell) await(t *testing.T, method string) mcptest.Notification {
	t.Helper()
	is := func(n mcptest.Notification) bool { return n.Method == method }
	if i := slices.IndexFunc(c.seen, is); i >= 0 {
		n := c.seen[i]
		c.seen = slices.Delete(c.seen, i, i+1)
		return n
	}
	for deadline := time.After(2 * time.Minute); ; {
		select {
		case n := <-c.notifications:
			if is(n) {
				return n
			}
			c.seen = append(c.seen, n)
		case <-deadline:
			t.Fatalf("%s did not come, only %v", method, c.seen)
		}
	}
}

// forget drops the received notifications.
func (c *cell) forget() {
	for c.seen = nil; len(c.notifications) > 0; {
		<-c.notifications
	}
}

// awaitTrace waits for a line of the server's trace, and returns it.
func (c *cell) awaitTrace(t *testing.T, what string, is func(line string) bool) (found string) {
	t.Helper()
	mcptest.WaitFor(t, what+" in the server's trace", func() bool {
		text, _ := os.ReadFile(c.trace)
		lines := strings.Split(string(text), "\n")
		i := slices.IndexFunc(lines, is)
		if i >= 0 {
			found = lines[i]
		}
		return i >= 0
	})
	return found
}

// question makes the server ask the client and returns the question as the client received it.
// The client's answer has to reach the server byte for byte.
func (c *cell) question(t *testing.T, method, params string) string {
	t.Helper()
	asked := c.listenIn(t, method)
	arguments := map[string]any{"method": method}
	if params != "" {
		arguments["params"] = json.RawMessage(params)
	}
	expect.Equal(t, c.text(t, "ask", arguments), answers[method], "the server received")
	select {
	case p := <-asked:
		return p
	default:
		t.Fatal("the client was not asked")
		return ""
	}
}

// listenIn returns the parameters of the questions to the client from now on.
func (c *cell) listenIn(t *testing.T, method string) <-chan string {
	asked := make(chan string, 10)
	reply := func(m string, params json.RawMessage) json.RawMessage {
		if m == method {
			asked <- string(params)
		}
		return answer(m, params)
	}
	c.session.answers = reply
	c.OnRequest(func(m string, params json.RawMessage) (json.RawMessage, *mcptest.Error) {
		if c.modern && m != "ping" {
			t.Errorf("a modern client received the request %s", m)
		}
		return reply(m, params), nil
	})
	return asked
}

// Questions reach the client, and its answers the server, as they are: in calls, prompts and resources, and in several rounds.
func (c *cell) questions(t *testing.T) {
	const form = `"requestedSchema":{"type":"object","properties":{"name":{"type":"string","unknown":9007199254740993}},"required":["name"]}`
	const address = `"mode":"url","url":"https://example.invalid/login?a=b"`
	id := ""
	if c.serverEra == "legacy" {
		id = `,"elicitationId":"e1"`
	}
	for _, q := range []struct{ method, params, want string }{
		{"sampling/createMessage", `{"messages":[{"role":"user","content":{"type":"text","text":"2+2?"}}],"maxTokens":10,"unknown":9007199254740993}`, `"unknown":9007199254740993`},
		{"elicitation/create", `{"mode":"form","message":"Your name?",` + form + `}`, form},
		{"elicitation/create", `{"message":"Log in",` + address + id + `}`, `"url":"https://example.invalid/login?a=b"`},
	} {
		expect.Contains(t, c.question(t, q.method, q.params), q.want, "the client was asked")
	}
	one := answers["elicitation/create"]
	expect.Equal(t, c.text(t, "ask", map[string]any{"method": "elicitation/create", "rounds": 3}), one+"\n"+one+"\n"+one, "in three rounds the server received")
	expect.Contains(t, c.must(t, "prompts/get", map[string]any{"name": "ask"}), strings.Trim(string(quote(one)), `"`), "the prompt that asks")
	expect.Contains(t, c.must(t, "resources/read", map[string]any{"uri": "fake://x/ask"}), "9007199254740993", "the resource that asks")
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
	mcptest.WaitFor(t, "the server to be told the roots", func() bool { return c.text(t, "roots", nil) == answers["roots/list"] })
	asked := c.listenIn(t, "roots/list")
	expect.OK(t, c.Notify("notifications/roots/list_changed", nil))
	select {
	case <-asked:
	case <-time.After(2 * time.Minute):
		t.Error("the server did not ask again after the roots had changed")
	}
}

// A question that belongs to no call reaches a legacy client. A modern client cannot be asked, so
// the server gets an error.
func (c *cell) outOfTheBlue(t *testing.T) {
	if c.serverEra == "modern" {
		return // a modern server asks only in results
	}
	c.text(t, "later", map[string]any{"method": "roots/list"})
	got := c.awaitTrace(t, "an answer", func(line string) bool { return strings.HasPrefix(line, "later ") })
	if c.clientEra == "legacy" && got != "later "+answers["roots/list"] {
		t.Errorf("the server received %s", got)
	}
	if c.clientEra == "modern" && !strings.Contains(got, `"code"`) && !strings.Contains(got, `"roots":[]`) {
		t.Errorf("the server received %s, want an error or no roots", got)
	}
}

// Progress has the client's own token, is in order, and comes before the result.
func (c *cell) progress(t *testing.T) {
	const token = `9007199254740993`
	x, err := c.Exchange(within(t), "tools/call", map[string]any{
		"name": "progress", "arguments": map[string]any{"n": 50}, "_meta": map[string]any{"progressToken": json.RawMessage(token)},
	})
	expect.OK(t, err)
	var got, want []string
	for _, n := range x.Before {
		if n.Method == "notifications/progress" {
			got = append(got, string(n.Params))
		}
	}
	for i := range 50 {
		want = append(want, fmt.Sprintf(`{"progressToken":%s,"progress":%d,"total":50}`, token, i+1))
	}
	expect.List(t, got, want, "before the result there came %d notifications", len(got))
}

// A call that the client cancels is cancelled at the server, with the id that the server knows.
func (c *cell) cancellation(t *testing.T) {
	ctx, cancel := context.WithCancel(within(t))
	ended := make(chan error, 1)
	go func() {
		_, err := c.Request(ctx, "tools/call", map[string]any{"name": "hang", "arguments": map[string]any{}})
		ended <- err
	}()
	var m struct{ ID json.RawMessage }
	c.awaitTrace(t, "the call", func(line string) bool {
		return strings.Contains(line, `"tools/call"`) && strings.Contains(line, `"hang"`) && json.Unmarshal([]byte(line), &m) == nil
	})
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the call ended with %v", err)
	}
	c.awaitTrace(t, "the end of the call", func(line string) bool { return strings.HasPrefix(line, "cancelled "+string(m.ID)) })
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
	subscription := func(n mcptest.Notification) string {
		var p struct {
			Meta map[string]json.RawMessage `json:"_meta"`
		}
		json.Unmarshal(n.Params, &p)
		return string(p.Meta["io.modelcontextprotocol/subscriptionId"])
	}
	id := subscription(c.await(t, "notifications/subscriptions/acknowledged"))
	return func(n mcptest.Notification) {
		t.Helper()
		if subscription(n) != id || id == "" {
			t.Errorf("%s %s does not belong to the subscription %s", n.Method, n.Params, id)
		}
	}
}

func (c *cell) subscriptions(t *testing.T) {
	c.forget()
	belongs := func(mcptest.Notification) {}
	if c.modern {
		belongs = c.listening(t, map[string]any{"resourceSubscriptions": []string{"fake://a"}})
	} else {
		c.must(t, "resources/subscribe", map[string]any{"uri": "fake://a"})
	}
	c.awaitTrace(t, "the subscription", func(line string) bool { // a router may answer before
		return strings.Contains(line, `"fake://a"`) && (strings.Contains(line, `"resources/subscribe"`) || strings.Contains(line, `"subscriptions/listen"`))
	})
	c.text(t, "touch", map[string]any{"uri": "fake://b.bin"})
	c.text(t, "touch", map[string]any{"uri": "fake://a"})
	n := c.await(t, "notifications/resources/updated")
	if belongs(n); !strings.Contains(string(n.Params), `"uri":"fake://a"`) {
		t.Errorf("%s", n.Params)
	}
}

func (c *cell) changes(t *testing.T) {
	c.forget()
	belongs := func(mcptest.Notification) {}
	if c.modern {
		belongs = c.listening(t, map[string]any{"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true})
	}
	for kind, tool := range map[string]string{"tools": "grow", "prompts": "grow_prompts", "resources": "grow_resources"} {
		name := strings.TrimPrefix(c.text(t, tool, map[string]any{}), "added ")
		for { // until the list has it
			belongs(c.await(t, "notifications/"+kind+"/list_changed"))
			if strings.Contains(c.must(t, kind+"/list", map[string]any{}), `"`+name+`"`) {
				break
			}
		}
	}
}
