package adapter_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/profile"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// Another node sees the server's own names and results, and none of our tools.
func TestServeNode(t *testing.T) {
	long := strings.Repeat("long_name_", 9)
	b := newBox(t, "-tools", "echo,answer,log,progress,error,big,hang,find_tools,"+long, "-prompts", "greet", "-resources", "doc://a,doc://b.bin", "-templates", "doc://t/{x}", "-skills", "git")
	s := b.dial()
	m := modern(`{}`)
	contains(t, "discover", s.ask("server/discover", "", nil, m), `"supportedVersions":["2026-07-28"`, `"name":"gpu"`, `"version":"1.0.0"`, `"tools":`)
	contains(t, "tools", s.ask("tools/list", "", nil, m), `"name":"echo"`, `"name":"find_tools"`, `"name":"`+long+`"`)
	contains(t, "prompts", s.ask("prompts/list", "", nil, m), `"name":"greet"`)
	contains(t, "resources", s.ask("resources/list", "", nil, m), `"uri":"doc://b.bin"`)
	contains(t, "templates", s.ask("resources/templates/list", "", nil, m), `"resourceTemplates":[`, `doc://t/{x}`)
	contains(t, "skills", s.ask("skills/list", "", nil, m), `"skills":[{`, `"uri":"skill://git/more.md"`)
	contains(t, "a skill", s.ask("skills/get", `"uri":"skill://git/SKILL.md"`, by("ann"), m), `"skill":{`, `"digest":"sha256:`)

	const echo = `"name":"echo","arguments":{"message" : "é"}`
	got := s.ask("tools/call", echo, by("ann"), m)
	b.verify(got, echo, by("ann"))
	contains(t, "echo", got, `"trace_id"`, `"degraded":false`)
	const odd = `"content":[{"zeta":1.50,"type":"hologram", "a" : [ ]}],"structuredContent":{"n" : 9007199254740993, "z":"\u00e9"},"isError":false`
	got = s.ask("tools/call", `"name":"answer","arguments":{"result":{`+odd+`}}`, by("ann"), m)
	contains(t, "the server's bytes", got, odd)
	for _, name := range []string{"find_tools", long} {
		contains(t, name, s.ask("tools/call", `"name":"`+name+`","arguments":{}`, by("ann"), m), `"result":{"content"`)
	}
	if got := s.ask("tools/call", `"name":"big","arguments":{"bytes":2000000}`, by("ann"), m); len(got) < 2_000_000 || strings.Contains(got, "truncated") {
		t.Errorf("a long result has %d bytes", len(got))
	}
	for _, name := range []string{"call_tool", "read_result", "gpu__echo", "gpu:echo", "ECHO"} {
		contains(t, name, s.ask("tools/call", `"name":"`+name+`"`, by("ann"), m), `"error":{"code":-32602,"message":"unknown tool gpu:`)
	}
	contains(t, "error", s.ask("tools/call", `"name":"error"`, by("ann"), m), `"error":{"code":-31999,"message":"the error tool always fails","data":{"b":9007199254740993`)
	contains(t, "no member", s.ask("tools/call", echo, nil, m), `-32600`, clusternode.MetaKey)
	contains(t, "prompt", s.ask("prompts/get", `"name":"greet"`, by("ann"), m), `"messages"`)
	contains(t, "read", s.ask("resources/read", `"uri":"doc://b.bin"`, by("ann"), m), `"blob"`)
	contains(t, "unknown method", s.ask("tools/run", "", by("ann"), m), `-32601`)
	contains(t, "legacy method", s.ask("tools/call", echo, by("ann"), nil), `"error"`)

	id := s.request("tools/call", `"name":"progress","arguments":{"n":2}`, by("ann"), with(m, "progressToken", "p"))
	contains(t, "progress", s.receive("notifications/progress"), `"progressToken":"p"`)
	contains(t, "progress", s.answer(id), `"result"`)

	id = s.request("tools/call", `"name":"log","arguments":{"level":"error"}`, by("ann"), with(m, "io.modelcontextprotocol/logLevel", "info"))
	contains(t, "log", s.receive("notifications/message"), fmt.Sprintf(`"_meta":{"metarouter/request":%d}`, id))

	id = s.request("tools/call", `"name":"hang"`, by("ann"), m)
	s.send(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, id))
	deadline := *by("ann")
	deadline.Deadline = time.Now().Add(50 * time.Millisecond).UnixMilli()
	contains(t, "deadline", s.ask("tools/call", `"name":"hang"`, &deadline, m), "deadline exceeded")

	s.send(`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`)
	contains(t, "batch", s.receive(`"error"`), `"id":null`)
}

func with(meta map[string]any, key string, value any) map[string]any {
	all := map[string]any{key: value}
	for key, value := range meta {
		all[key] = value
	}
	return all
}

// The rules of the client's node and ours hold for each request, as they are now.
func TestServeNodeByRules(t *testing.T) {
	b := newBox(t, "-tools", "echo,raw", "-resources", "doc://a,doc://b")
	s := b.dial()
	m := modern(`{}`)
	const echo, raw = `"name":"echo"`, `"name":"raw"`
	about := by("ann")
	about.Origin.Profile = "reader"
	about.Origin.Rules = profile.Encode(map[string]config.Profile{"reader": {Allow: []string{"gpu@box:echo"}, Deny: []string{"doc://b"}}}, "reader")
	contains(t, "allowed", s.ask("tools/call", echo, about, m), `"result"`)
	contains(t, "not allowed", s.ask("tools/call", raw, about, m), "unknown tool gpu:raw")
	contains(t, "resource", s.ask("resources/read", `"uri":"doc://b"`, about, m), "no server knows doc://b")
	contains(t, "names that differ in case", s.ask("resources/read", `"uri":"doc://a","URI":"doc://b"`, by("ann"), m), `"doc://a"`)

	contains(t, "names that are there twice", s.ask("resources/read", `"uri":"doc://b","uri":"doc://a"`, about, m), `"doc://a"`)
	contains(t, "names that are there twice", s.ask("resources/read", `"uri":"doc://a","uri":"doc://b"`, about, m), `no server knows doc://b`)
	loud := by("ann\nroot")
	contains(t, "a name with a line end", s.ask("tools/call", echo, loud, m), "invalid metarouter/node")

	edited := b.config
	edited.Router.Profiles = map[string]config.Profile{"default": {Deny: []string{"gpu:echo"}}}
	b.edits <- edited
	mcptest.WaitFor(t, "our rule", func() bool { return strings.Contains(s.ask("tools/call", echo, about, m), "unknown tool gpu:echo") })
	edited.Router.Profiles = map[string]config.Profile{"default": {Servers: []string{}}}
	b.edits <- edited
	mcptest.WaitFor(t, "our rule", func() bool { return !strings.Contains(s.ask("tools/list", "", nil, m), "echo") })
	contains(t, "capabilities of a server that is hidden", s.ask("server/discover", "", nil, m), `"tools":`)
	edited.Router.Cluster = &config.Cluster{Name: "test"}
	b.edits <- edited
	mcptest.WaitFor(t, "the server to be shared no more", func() bool {
		return strings.Contains(s.ask("tools/call", raw, by("ann"), m), `"metarouter":{"outcome":"not_sent"}`)
	})
	b.edits <- b.config
	mcptest.WaitFor(t, "the server to be shared", func() bool { return strings.Contains(s.ask("tools/call", raw, by("ann"), m), `"result"`) })
	b.lapsed.Store(true)
	contains(t, "lapsed", s.ask("tools/call", raw, by("ann"), m), `"metarouter":{"outcome":"not_sent"}`)
}

// A call that asks its client is suspended, and resumed on another stream by the same principal only.
func TestServeNodeResumes(t *testing.T) {
	b := newBox(t, "-tools", "ask")
	m := modern(`{"elicitation":{"form":{}}}`)
	const ask = `"name":"ask","arguments":{"method":"elicitation/create"}`
	first := b.dial()
	got := first.ask("tools/call", ask, by("ann"), m)
	b.verify(got, ask, by("ann"))
	result := wire.Member([]byte(got), "result")
	contains(t, "question", got, `"resultType":"input_required"`, `"message":"Your name?"`) // without the server's name, which the other node adds
	state, _ := wire.String(wire.Member(result, "requestState"))
	key := questionIn(result)
	resumed := ask + `,"requestState":"` + state + `","inputResponses":{"` + key + `":{"action":"accept","content":{"name":"Ann"}}}`
	first.close()
	second := b.dial()
	contains(t, "another principal", second.ask("tools/call", resumed, by("bob"), m), "requestState is not valid")
	about := by("ann")
	about.ID = "the second"
	got = second.ask("tools/call", resumed, about, m)
	contains(t, "resumed", got, `Ann`)
	b.verify(got, ask, about)

	// A client of the other era in another call, at the same time, is not mixed up with it.
	third := b.dial()
	id := third.request("tools/call", ask, by("ann"), m)
	contains(t, "another call", second.ask("tools/call", ask, by("bob"), m), "input_required")
	contains(t, "a call", third.answer(id), "input_required")
}

// Suspended calls end when the node is trusted no more or the server is shared no more, even if the node
// has no stream.
func TestServeNodeRevokes(t *testing.T) {
	for name, revoked := range map[string]config.Cluster{
		"trust": {Name: "test", Share: []string{"gpu"}}, "share": {Name: "test", Trusted: []string{"UA"}},
	} {
		t.Run(name, func(t *testing.T) {
			trace := filepath.Join(t.TempDir(), "trace")
			b := newBox(t, "-tools", "ask,echo", "-trace", trace)
			m := modern(`{"elicitation":{"form":{}}}`)
			const ask = `"name":"ask","arguments":{"method":"elicitation/create"}`
			s := b.dial()
			got := s.ask("tools/call", ask, by("ann"), m)
			contains(t, "question", got, "input_required")
			s.close()
			edited := b.config
			edited.Router.Cluster = &revoked
			b.edits <- edited
			mcptest.WaitFor(t, "the server to know", func() bool {
				text, err := os.ReadFile(trace)
				return err == nil && strings.Contains(string(text), "cancelled")
			})
			s = b.dial()
			contains(t, "revoked", s.ask("tools/call", `"name":"echo"`, by("ann"), m), `"metarouter":{"outcome":"not_sent"}`)
		})
	}
}

// A stream of the legacy era is one client with a session.
func TestServeNodeLegacy(t *testing.T) {
	b := newBox(t, "-tools", "ask,roots,touch,log,echo", "-ask-roots", "-logging", "-resources", "doc://a")
	mcptest.WaitFor(t, "the server to ask", func() bool { return b.offers()["gpu"].Terms.Asks })
	s := b.dial()
	contains(t, "initialize", s.ask("initialize", `"protocolVersion":"2025-11-25","capabilities":{"elicitation":{},"roots":{"listChanged":true}},"clientInfo":{"name":"claude","version":"1"}`, nil, nil),
		`"protocolVersion":"2025-11-25"`, `"serverInfo":{"name":"gpu","version":"1.0.0"}`)
	s.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	contains(t, "level", s.ask("logging/setLevel", `"level":"debug"`, nil, nil), `"result":{}`)

	contains(t, "roots", s.roots("file:///ann"), "file:///ann")

	const ask = `"name":"ask","arguments":{"method":"elicitation/create"}`
	id := s.request("tools/call", ask, by("ann"), nil)
	question := s.receive("elicitation/create")
	contains(t, "question", question, `"message":"Your name?"`)
	s.send(`{"jsonrpc":"2.0","id":` + string(wire.Member([]byte(question), "id")) + `,"result":{"action":"accept","content":{"name":"Ann"}}}`)
	got := s.answer(id)
	contains(t, "answer", got, "Ann")
	b.verify(got, ask, by("ann"))

	contains(t, "subscribe", s.ask("resources/subscribe", `"uri":"doc://a"`, nil, nil), `"result":{}`)
	contains(t, "update", s.touched(nil, "doc://a"), "doc://a")
}

// A stream of the modern era gets the updates that it asks for.
func TestServeNodeUpdates(t *testing.T) {
	b := newBox(t, "-tools", "touch,grow", "-resources", "doc://a,doc://b")
	s := b.dial()
	m := modern(`{}`)
	s.request("subscriptions/listen", `"notifications":{"resourceSubscriptions":["doc://a"],"toolsListChanged":true}`, nil, m)
	contains(t, "acknowledged", s.receive("notifications/subscriptions/acknowledged"), "doc://a", "toolsListChanged")
	contains(t, "update", s.touched(m, "doc://b", "doc://a"), "doc://a")
	s.request("tools/call", `"name":"grow"`, by("ann"), m)
	s.receive("notifications/tools/list_changed")
}

// A node subscribes on behalf of all its clients.
func TestServeNodeSubscribesForMany(t *testing.T) {
	b := newBox(t, "-tools", "echo", "-resources", "doc://a")
	s := b.dial()
	listen := func(uris int) string {
		all := []string{"doc://a"}
		for i := range uris - 1 {
			all = append(all, fmt.Sprintf("doc://%d", i))
		}
		id := s.request("subscriptions/listen", `"notifications":{"resourceSubscriptions":`+string(wire.Marshal(all))+`}`, nil, modern(`{}`))
		return s.receive(fmt.Sprintf(`:%d`, id))
	}
	contains(t, "more than one client may have", listen(1001), "acknowledged", "doc://a")
	contains(t, "too many", listen(10_001), "at most 10000 URIs")
}

// The requests of a node are bounded, whatever the streams.
func TestServeNodeBusy(t *testing.T) {
	b := newBox(t, "-tools", "echo")
	first, second := b.dial(), b.dial()
	for i := range 1024 {
		s := first
		if i >= 1000 { // as many as a stream may have
			s = second
		}
		s.request("subscriptions/listen", `"notifications":{"toolsListChanged":true}`, nil, modern(`{}`))
		s.receive("acknowledged")
	}
	contains(t, "one more", second.ask("tools/call", `"name":"echo"`, by("ann"), modern(`{}`)), `"metarouter":{"outcome":"not_sent"}`, "busy")
	first.close()
	contains(t, "after the others", second.ask("tools/call", `"name":"echo"`, by("ann"), modern(`{}`)), `"result"`)
}

// questionIn returns the key of the question in a result.
func questionIn(result json.RawMessage) (key string) {
	_ = wire.Members(wire.Member(result, "inputRequests"), func(name string, _ []byte) bool { key = name; return true })
	return key
}
