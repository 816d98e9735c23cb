package server

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

func prompt(server, name string) registry.Prompt {
	return registry.Prompt{ID: registry.ID(server, name), Server: server, Name: name,
		Definition: fmt.Appendf(nil, `{"x":1e400,"name":%q}`, name)}
}

func resource(server, uri string) registry.Resource {
	return registry.Resource{ID: registry.ID(server, uri), Server: server, URI: uri, Name: uri,
		Definition: fmt.Appendf(nil, `{"uri":%q,"name":"n","x":[1]}`, uri)}
}

func uriTemplate(server, uri string) registry.Template {
	return registry.Template{ID: registry.ID(server, uri), Server: server, URI: uri, Name: uri,
		Definition: fmt.Appendf(nil, `{"uriTemplate":%q,"name":"n"}`, uri)}
}

// offering returns a router of two servers that offer the same and more.
func offering() *fakeRouter {
	r := newFake()
	r.servers = []status.Server{info("a", "ready", 0), info("b", "ready", 1)}
	capabilities := json.RawMessage(`{"resources":{}}`)
	r.offer("a", registry.Offer{Capabilities: capabilities,
		Prompts:   []registry.Prompt{prompt("a", "greet"), prompt("a", "only")},
		Resources: []registry.Resource{resource("a", "x:both"), resource("a", "x:a")},
		Templates: []registry.Template{uriTemplate("a", "x:t/{id}")},
	})
	r.offer("b", registry.Offer{Capabilities: capabilities,
		Prompts:   []registry.Prompt{prompt("b", "greet")},
		Resources: []registry.Resource{resource("b", "x:both")},
		Templates: []registry.Template{uriTemplate("b", "y:{id}")},
		Tools: []registry.NormalizedTool{{ID: "b:chart", Server: "b", Name: "chart", InputSchema: json.RawMessage(`{"type":"object"}`),
			Definition: json.RawMessage(`{"name":"chart","inputSchema":{"type":"object"},"_meta":{"ui":{"resourceUri":"ui://chart"}}}`)}},
	})
	return r
}

func (r *fakeRouter) offer(server string, o registry.Offer) {
	if _, err := r.Replace(server, o); err != nil {
		panic(err)
	}
}

func TestListsOfOtherKinds(t *testing.T) {
	c := initialized(t, offering(), Options{Mode: exposure.Search, Names: exposure.Bare})
	c.want(`{"jsonrpc":"2.0","id":1,"method":"prompts/list"}`,
		`{"jsonrpc":"2.0","id":1,"result":{"prompts":[{"x":1e400,"name":"a__greet"},{"x":1e400,"name":"b__greet"},{"x":1e400,"name":"only"}]}}`)
	c.want(`{"jsonrpc":"2.0","id":2,"method":"resources/list","params":{}}`,
		`{"jsonrpc":"2.0","id":2,"result":{"resources":[{"uri":"metarouter://b/x:both","name":"n","x":[1]},{"uri":"x:a","name":"n","x":[1]},{"uri":"x:both","name":"n","x":[1]}]}}`)
	c.want(`{"jsonrpc":"2.0","id":3,"method":"resources/templates/list"}`,
		`{"jsonrpc":"2.0","id":3,"result":{"resourceTemplates":[{"uriTemplate":"x:t/{id}","name":"n"},{"uriTemplate":"y:{id}","name":"n"}]}}`)
}

// Where requests about prompts, resources and tasks go, and as what.
func TestRelay(t *testing.T) {
	r := offering()
	c := initialized(t, r, Options{Mode: exposure.Direct})
	for i, tc := range []struct{ method, params, want string }{
		{"prompts/get", `{"name":"b__greet","arguments":{"n":9007199254740993},"x":1}`, `{"server":"b","method":"prompts/get","params":{"name":"greet","arguments":{"n":9007199254740993},"x":1}}`},
		{"prompts/get", `{"_meta":{"traceparent":"t"},"name":"only"}`, `{"server":"a","method":"prompts/get","params":{"name":"only","arguments":{}}}`},
		{"prompts/get", `{"arguments":null,"name":"only"}`, `{"server":"a","method":"prompts/get","params":{"arguments":{},"name":"only"}}`},
		{"resources/read", `{"uri":"x:a"}`, `{"server":"a","method":"resources/read","params":{"uri":"x:a"}}`},
		{"resources/read", `{"uri":"x:both"}`, `{"server":"a","method":"resources/read","params":{"uri":"x:both"}}`},
		{"resources/read", `{"uri":"metarouter://b/x:both"}`, `{"server":"b","method":"resources/read","params":{"uri":"x:both"}}`},
		{"resources/read", `{"uri":"y:1"}`, `{"server":"b","method":"resources/read","params":{"uri":"y:1"}}`},
		{"resources/read", `{"uri":"ui://chart"}`, `{"server":"b","method":"resources/read","params":{"uri":"ui://chart"}}`},
		{"resources/read", `{"uri":"z:unlisted"}`, `{"server":"a","method":"resources/read","params":{"uri":"z:unlisted"}}`},
		{"completion/complete", `{"ref":{"type":"ref/prompt","name":"b__greet","title":"T"},"argument":{"name":"n","value":"v"}}`,
			`{"server":"b","method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"greet","title":"T"},"argument":{"name":"n","value":"v"}}}`},
		{"completion/complete", `{"ref":{"type":"ref/resource","uri":"y:{id}"},"argument":{"name":"id","value":""}}`,
			`{"server":"b","method":"completion/complete","params":{"ref":{"type":"ref/resource","uri":"y:{id}"},"argument":{"name":"id","value":""}}}`},
		// Servers that ignore the case of names, or take the first member, get what was judged.
		{"prompts/get", `{"name":"only","Name":"hidden","_Meta":{"x":1}}`, `{"server":"a","method":"prompts/get","params":{"name":"only","arguments":{}}}`},
		{"resources/read", `{"URI":"hidden","uri":"hidden","uri":"x:a"}`, `{"server":"a","method":"resources/read","params":{"uri":"x:a","uri":"x:a"}}`},
		{"completion/complete", `{"ref":{"type":"ref/resource","type":"ref/prompt","name":"only","NAME":"hidden"},"Ref":{"type":"ref/prompt","name":"hidden"},"argument":{"name":"n","value":"v"}}`,
			`{"server":"a","method":"completion/complete","params":{"ref":{"type":"ref/prompt","type":"ref/prompt","name":"only"},"argument":{"name":"n","value":"v"}}}`},
	} {
		c.want(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, i, tc.method, tc.params),
			fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":%s}`, i, tc.want))
	}
	for i, tc := range []struct{ method, params, want string }{
		{"prompts/get", `{"name":"greet"}`, `{"code":-32602,"message":"several servers have a prompt \"greet\"; write one of: a__greet, b__greet"}`},
		{"prompts/get", `{}`, `{"code":-32602,"message":"prompts/get needs the string name"}`},
		{"resources/read", `{"uri":1}`, `{"code":-32602,"message":"resources/read needs the string uri"}`},
		{"completion/complete", `{"ref":{"type":"ref/other"}}`, `{"code":-32602,`},
		{"logging/setLevel", `{"level":"loud"}`, `{"code":-32602,"message":"unknown level loud`},
	} {
		c.wantPrefix(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, i, tc.method, tc.params),
			fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"error":%s`, i, tc.want))
	}
}

// A resource that nobody lists is looked for at each server.
func TestResourceLookedFor(t *testing.T) {
	r := offering()
	var tried []string
	r.relay = func(_ context.Context, server string, q session.Request) (json.RawMessage, error) {
		tried = append(tried, server)
		if server == "a" {
			return nil, &session.Error{Code: session.CodeNoResource, Message: "no", Data: json.RawMessage(`1`)}
		}
		if uri := wire.Member(q.Params, "uri"); string(uri) == `"z:none"` {
			return nil, &session.Error{Code: session.CodeNoResource, Message: "neither", Data: json.RawMessage(`2`)}
		}
		return json.RawMessage(`{"contents":[{"uri":"x:both","text":"t"}]}`), nil
	}
	c := initialized(t, r, Options{Mode: exposure.Direct})
	c.want(`{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"z:b"}}`, `{"jsonrpc":"2.0","id":1,"result":{"contents":[{"uri":"x:both","text":"t"}]}}`)
	c.want(`{"jsonrpc":"2.0","id":2,"method":"resources/read","params":{"uri":"metarouter://b/x:both"}}`, `{"jsonrpc":"2.0","id":2,"result":{"contents":[{"uri":"metarouter://b/x:both","text":"t"}]}}`)
	c.want(`{"jsonrpc":"2.0","id":3,"method":"resources/read","params":{"uri":"z:none"}}`, `{"jsonrpc":"2.0","id":3,"error":{"code":-32002,"message":"neither","data":2}}`)
	c.want(`{"jsonrpc":"2.0","id":4,"method":"resources/read","params":{"uri":"z:none",`+modernMeta+`}}`, `{"jsonrpc":"2.0","id":4,"error":{"code":-32602,"message":"neither","data":{"uri":"z:none"}}}`)
	expect.Equal(t, strings.Join(tried, " "), "a b b a b a b", "servers tried")
}

// A task is asked for at the server that runs it.
func TestTasks(t *testing.T) {
	r := newFake(tool("s/1", "long"))
	r.offer("s/1", registry.Offer{Tools: []registry.NormalizedTool{tool("s/1", "long")}, Extensions: json.RawMessage(`{"io.modelcontextprotocol/groups":{},"io.modelcontextprotocol/tasks":{"v":1}}`)}) // groups are not relayed
	r.servers = append(r.servers, info("s/1", "ready", 1))
	r.execute = answering(`{"resultType":"task","taskId":"t/1","status":"working"}`)
	r.relay = func(_ context.Context, server string, q session.Request) (json.RawMessage, error) {
		return fmt.Appendf(nil, `{"taskId":"t/1","asked":%q,"params":%s}`, server, q.Params), nil
	}
	c := connect(t, r, Options{Mode: exposure.Direct})
	expect.Contains(t, c.ask(`{"jsonrpc":"2.0","id":0,"method":"server/discover","params":{`+modernMeta+`}}`), `"extensions":{"io.modelcontextprotocol/skills":{},"io.modelcontextprotocol/tasks":{"v":1}}`, "discover says")
	c.wantPrefix(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"s:long","arguments":{},`+modernMeta+`}}`, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602`)
	c.wantPrefix(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"s/1:long",`+modernMeta+`}}`, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"task","taskId":"s%2F1:long/t/1","status":"working"`)
	c.wantPrefix(`{"jsonrpc":"2.0","id":2,"method":"tasks/get","params":{"taskId":"s%2F1:long/t/1",`+modernMeta+`}}`, `{"jsonrpc":"2.0","id":2,"result":{"taskId":"s%2F1:long/t/1","asked":"s/1","params":{"taskId":"t/1"},"resultType":"complete"`)
	c.wantPrefix(`{"jsonrpc":"2.0","id":3,"method":"tasks/get","params":{"taskId":"t",`+modernMeta+`}}`, `{"jsonrpc":"2.0","id":3,"error":{"code":-32602`)
}

const askingMeta = `"_meta":{"progressToken":7,"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{},"roots":{}}}`

// asking has the tool ask its client, and answer with what it was told.
func (r *fakeRouter) asking(methods ...string) (ended chan error) {
	ended = make(chan error, 10)
	r.execute = func(ctx context.Context, c selector.Call) (selector.Result, error) {
		told := ""
		for _, method := range methods {
			c.From.Notify("a", session.Message{Method: "notifications/progress", Params: json.RawMessage(`{"progressToken":"t"}`)})
			answer, err := c.From.Ask(ctx, "a", session.Message{Method: method, Params: json.RawMessage(`{"message":"Who?"}`)})
			if err != nil {
				ended <- err
				return selector.Result{}, err
			}
			told += string(answer)
		}
		ended <- nil
		return selector.Result{JSON: fmt.Appendf(nil, `{"content":[],"told":%q}`, told)}, nil
	}
	return ended
}

// call asks for the tool with more parameters, and returns the result's member.
func (c *client) callAsking(id int, more, member string) string {
	c.t.Helper()
	line := c.ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"a__b","arguments":{"n":1},%s%s}}`, id, askingMeta, more))
	for strings.Contains(line, "notifications/progress") {
		line = c.receive()
	}
	m, err := wire.Parse([]byte(line))
	expect.OK(c.t, err)
	if m.Error != nil {
		return string(m.Error)
	}
	return string(wire.Member(m.Result, member))
}

// A legacy server's questions to a modern client are results, and the client's
// next request goes on with the call.
func TestParkedCall(t *testing.T) {
	r := newFake(tool("a", "b"))
	ended := r.asking("elicitation/create", "roots/list")
	c := connect(t, r, Options{Mode: exposure.Direct})
	first := c.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__b","arguments":{"n":1},` + askingMeta + `}}`)
	expect.Equal(t, first, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7}}`, "first came")
	first = c.receive()
	key := keyIn(t, first)
	if !strings.HasPrefix(first, `{"jsonrpc":"2.0","id":1,"result":{"resultType":"input_required","inputRequests":{"`+key+`":{"method":"elicitation/create","params":{"message":"a: Who?"}}},"requestState":"mr1.`) {
		t.Fatalf("the call was answered %s", first)
	}
	m, _ := wire.Parse([]byte(first))
	state := string(wire.Member(m.Result, "requestState"))
	for what, more := range map[string]string{
		"altered":                           `,"requestState":"` + strings.TrimPrefix(strings.TrimSuffix(state, `"`), `"`) + `x"`,
		"of another call":                   `,"x":1,"requestState":` + state,
		"unknown":                           `,"requestState":"mr1.AAAA"`,
		"with a response that is no object": `,"requestState":` + state + `,"inputResponses":{"` + key + `":7}`,
	} {
		expect.Contains(t, c.callAsking(2, more, "resultType"), "-32602", "a state that is %s", what)
	}
	expect.Equal(t, keyIn(t, c.callAsking(3, `,"requestState":`+state, "inputRequests")), key, "without the answer")
	got := c.callAsking(4, `,"inputResponses":{"`+key+`":{"action":"accept","n":9007199254740993},"other":{}},"requestState":`+state, "inputRequests")
	second := keyIn(t, got)
	if !strings.Contains(got, `"`+second+`":{"method":"roots/list"`) || second == key {
		t.Errorf("after the first answer: %s", got)
	}
	expect.Equal(t, c.callAsking(5, `,"inputResponses":{"`+second+`":{"roots":[]}},"requestState":`+state, "told"), `"{\"action\":\"accept\",\"n\":9007199254740993}{\"roots\":[]}"`, "the tool was told")
	expect.OK(t, <-ended)
	expect.Contains(t, c.callAsking(6, `,"requestState":`+state, "told"), "-32602", "the state of a call that has ended")
}

// What cannot be asked is refused, and what nobody comes back for is given up.
func TestParkedCallEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFake(tool("a", "b"))
		ended := r.asking("sampling/createMessage")
		c := connect(t, r, Options{Mode: exposure.Direct})
		expect.Contains(t, c.callAsking(1, "", "told"), "does not support sampling", "a capability that the client")
		<-ended
		ended = r.asking("roots/list")
		expect.Equal(t, c.callAsking(2, "", "resultType"), `"input_required"`, "answered")
		time.Sleep(suspendTime + time.Second)
		expect.Error(t, <-ended, "did not come back", "the call ended")
		expect.Equal(t, c.callAsking(3, "", "resultType"), `"input_required"`, "answered")
		c.in.Close()
		if err := <-ended; err == nil {
			t.Error("the call of a client that has left goes on")
		}
		<-c.ended
	})
}

// A legacy client is asked on its stream, and its error is the server's answer.
func TestAskLegacyClient(t *testing.T) {
	r := newFake(tool("a", "b"))
	ended := r.asking("elicitation/create")
	c := connect(t, r, Options{Mode: exposure.Direct})
	c.wantPrefix(strings.Replace(initializing, `"capabilities":{}`, `"capabilities":{"elicitation":{}}`, 1), `{"jsonrpc":"2.0","id":"init","result":{`)
	c.want(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__b"}}`, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"t"}}`)
	if got := c.receive(); got != `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"a: Who?"}}` {
		t.Fatalf("the client was asked %s", got)
	}
	c.want(`{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"not now","data":[1]}}`, `{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":"not now","data":[1]}}`)
	<-ended
	// Cancelled by the client while it is asked: the question is withdrawn.
	c.ask(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"a__b"}}`)
	c.receive()
	c.want(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
	<-ended
}

// What servers say that belongs to no request goes to those whom it concerns.
func TestHear(t *testing.T) {
	r := offering()
	c := initialized(t, r, Options{Mode: exposure.Direct})
	hear := func(method, params string) {
		r.say("a", nil, session.Message{Method: method, Params: json.RawMessage(params)})
	}
	c.want(`{"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"x:a"}}`, `{"jsonrpc":"2.0","id":1,"result":{}}`)
	hear("notifications/resources/updated", `{"uri":"x:other"}`)
	hear("notifications/resources/updated", `{"uri":"x:a","n":1}`)
	expect.Equal(t, c.receive(), `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:a","n":1}}`, "heard")
	c.want(`{"jsonrpc":"2.0","id":2,"method":"logging/setLevel","params":{"level":"error"}}`, `{"jsonrpc":"2.0","id":2,"result":{}}`)
	expect.Equal(t, r.level.Load(), "error", "servers were told the level")
	hear("notifications/message", `{"level":"warning","data":1}`)
	hear("notifications/message", `{"level":"alert","data":2}`)
	expect.Equal(t, c.receive(), `{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"alert","data":2}}`, "heard")
	hear("notifications/elicitation/complete", `{"elicitationId":"e"}`)
	expect.Contains(t, c.receive(), "elicitation/complete", "heard")
	c.want(`{"jsonrpc":"2.0","id":3,"method":"resources/unsubscribe","params":{"uri":"x:a"}}`, `{"jsonrpc":"2.0","id":3,"result":{}}`)
	expect.Equal(t, <-r.unsubscribed, "a x:a", "unsubscribed from")
	// That a list has changed is passed on, though it is what it was.
	hear("notifications/prompts/list_changed", "")
	expect.Equal(t, c.receive(), `{"jsonrpc":"2.0","method":"notifications/prompts/list_changed"}`, "heard")
	// A modern client hears what it has subscribed to.
	c.wantPrefix(`{"jsonrpc":"2.0","id":4,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["x:a"],"other":true},`+modernMeta+`}}`,
		`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"resourceSubscriptions":["x:a"]},"_meta":{"io.modelcontextprotocol/subscriptionId":4}}}`)
	hear("notifications/resources/updated", `{"uri":"x:a"}`)
	expect.Equal(t, c.receive(), `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"x:a","_meta":{"io.modelcontextprotocol/subscriptionId":4}}}`, "heard")
}

// A resource that a result of a tool links to is read from the server that gave the link.
func TestLinkedResources(t *testing.T) {
	r := newFake()
	r.servers = []status.Server{info("a", "ready", 1), info("b", "ready", 1)}
	for _, server := range []string{"a", "b"} {
		offer := registry.Offer{Capabilities: json.RawMessage(`{"resources":{}}`), Resources: []registry.Resource{resource(server, "x:both")}, Prompts: []registry.Prompt{prompt(server, "greet")}, Tools: []registry.NormalizedTool{tool(server, "issue")}}
		if server == "a" {
			offer.Resources = append(offer.Resources, resource("a", "x:a"))
			offer.Templates = []registry.Template{uriTemplate("a", "x:t/{id}")}
		}
		r.offer(server, offer)
	}
	link := ""
	r.execute = func(_ context.Context, c selector.Call) (selector.Result, error) {
		return selector.Result{JSON: json.RawMessage(`{"content":[` + link + `]}`), Tool: c.Tool}, nil
	}
	o := Options{Mode: exposure.Direct, Scripts: true, Runner: realScripts{newEngine(t), r}}
	c, script := initialized(t, r, o), initialized(t, r, o)
	id := 0
	askOf := func(c *client, method, params string) string {
		id++
		return c.ask(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, params))
	}
	ask := func(method, params string) string { return askOf(c, method, params) }
	const linked, embedded = `{"type":"resource_link","name":"n","uri":%q}`, `{"type":"resource","resource":{"text":"t","uri":%q}}`
	for _, tc := range []struct{ server, block, uri, shown string }{
		{"b", linked, "jira://issue/7", "jira://issue/7"},
		{"b", linked, "jira://issue/7", "jira://issue/7"},
		{"a", linked, "jira://issue/7", "metarouter://a/jira://issue/7"},
		{"b", embedded, "file:///n", "file:///n"},
		{"a", embedded, "file:///n", "metarouter://a/file:///n"},
		{"b", linked, "x:t/9", "x:t/9"},                  // matches a template of a
		{"b", linked, "x:both", "metarouter://b/x:both"}, // is listed so
		{"b", linked, "x:a", "metarouter://b/x:a"},       // is listed by a
		{"a", embedded, "x:both", "x:both"},
		{"b", linked, strings.Repeat("u", 5000), strings.Repeat("u", 5000)},
	} {
		link = fmt.Sprintf(tc.block, tc.uri)
		expect.Contains(t, ask("tools/call", `{"name":"`+tc.server+`__issue"}`), fmt.Sprintf(`"uri":%q`, tc.shown), "%s of %s", tc.uri, tc.server)
		scripted := askOf(script, "tools/call", `{"name":"run_script","arguments":{"code":"result(await call('`+tc.server+`:issue'))"}}`)
		expect.Contains(t, scripted, fmt.Sprintf(`"uri":%q`, tc.shown), "%s of %s in a script", tc.uri, tc.server)
		if len(tc.uri) < 5000 {
			read := ask("resources/read", fmt.Sprintf(`{"uri":%q}`, tc.shown))
			expect.Contains(t, read, fmt.Sprintf(`{"server":%q,"method":"resources/read","params":{"uri":%q}}`, tc.server, tc.uri), "%s is read", tc.shown)
		}
	}
	expect.Contains(t, ask("resources/read", `{"uri":"jira://issue/8"}`), `"server":"a"`, "what was not given")
	echo := r.relay
	r.relay = func(context.Context, string, session.Request) (json.RawMessage, error) {
		return json.RawMessage(`{"messages":[{"role":"user","content":` + fmt.Sprintf(linked, "jira://issue/8") + `}]}`), nil
	}
	expect.Contains(t, ask("prompts/get", `{"name":"b__greet"}`), `"uri":"jira://issue/8"`, "a link in a prompt")
	r.relay = echo
	expect.Contains(t, ask("resources/read", `{"uri":"jira://issue/8"}`), `"server":"b"`, "the link of a prompt is read")
	other := initialized(t, r, Options{Mode: exposure.Direct})
	expect.Contains(t, other.ask(`{"jsonrpc":"2.0","id":90,"method":"resources/read","params":{"uri":"jira://issue/7"}}`), `"server":"a"`, "another client's link")
}

// A name that stands in an object very often takes no time that grows with the square of that: this test would not end.
func TestOnceOfManyNames(t *testing.T) {
	many := strings.Repeat(`"uri":1,`, 100_000)
	got := once(json.RawMessage("{"+many+`"URI":3,"uri":2}`), "name", "uri")
	if want := "{" + strings.ReplaceAll(many, "1", "2") + `"uri":2}`; string(got) != want {
		t.Errorf("got %d bytes, want %d: %.100s", len(got), len(want), got)
	}
}
