package adapter_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nkeys"
	"go.uber.org/zap/zaptest"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/nodeidentity"
	"github.com/mcp-metarouter/metarouter/internal/profile"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/server"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// A box is a router that shares its server gpu with other nodes.
type box struct {
	t        testing.TB
	identity *nodeidentity.Identity
	serve    func(context.Context, clusternode.Stream)
	offers   func() map[string]clusternode.Offer
	edits    chan<- config.Config
	config   config.Config
	lapsed   atomic.Bool
	servers  *server.Servers
}

func newBox(t testing.TB, flags ...string) *box {
	t.Helper()
	command, args := mcptest.Command(flags...)
	b := &box{t: t}
	b.config.Servers = []config.Server{{Name: "gpu", Transport: config.Stdio, Command: command, Args: args, StartTimeout: 30 * time.Second}}
	b.config.Router.Cluster = &config.Cluster{Name: "test", Share: []string{"gpu"}, Trusted: []string{"UA"}}
	var err error
	if b.identity, err = nodeidentity.Open(filepath.Join(t.TempDir(), "node.nk")); err != nil {
		t.Fatal(err)
	}
	var servers *server.Servers
	r := adapter.New(b.config, adapter.Options{
		Log:       zaptest.NewLogger(t),
		ServeNode: func(ctx context.Context, v *adapter.NodeView, conn net.Conn) { servers.ServeNode(ctx, v, conn) },
	}.Alone(b.identity))
	servers = server.NewServers(server.Profiles{Open: func([]string) (server.Router, server.Options) { return r.Parts(), server.Options{} }, Edited: r.Parts().Edited, Address: func() string { return "UABOX.R" }})
	b.servers = servers
	b.serve, b.offers = adapter.HostOf(r)
	edits := make(chan config.Config)
	b.edits = edits
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 2)
	go func() { ended <- r.Run(ctx, edits) }()
	go func() { ended <- servers.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		for range 2 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
	settling, stop := context.WithTimeout(ctx, 30*time.Second)
	defer stop()
	r.Settled(settling)
	return b
}

// A stream is the end of the node laptop of a stream to box.
type stream struct {
	t        testing.TB
	conn     net.Conn
	lines    chan string
	ended    chan struct{} // closed when box serves it no more
	requests int
}

func (b *box) dial() *stream { return b.dialFor("gpu") }

// dialFor opens a stream for a server, or for requests that a gateway passes on.
func (b *box) dialFor(server string) *stream {
	here, there := net.Pipe()
	s := &stream{t: b.t, conn: here, lines: make(chan string, 1000), ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		b.serve(context.Background(), clusternode.Stream{
			Conn: there, Server: server, Key: "UA", Node: "laptop", Lapsed: b.lapsed.Load, Local: func(t time.Time) time.Time { return t },
		})
	}()
	go func() {
		defer close(s.lines)
		for lines := bufio.NewReader(here); ; {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			s.lines <- strings.TrimSuffix(line, "\n")
		}
	}()
	b.t.Cleanup(s.close)
	return s
}

func (s *stream) close() {
	s.conn.Close()
	select {
	case <-s.ended:
	case <-time.After(time.Minute):
		s.t.Error("the stream is still served")
	}
}

func (s *stream) send(line string) {
	s.t.Helper()
	s.conn.SetWriteDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(s.conn, line+"\n"); err != nil {
		s.t.Fatal(err)
	}
}

// receive returns the next message that has the text.
func (s *stream) receive(text string) string {
	s.t.Helper()
	timeout := time.After(time.Minute)
	for {
		select {
		case line, ok := <-s.lines:
			if !ok {
				s.t.Fatalf("the stream ended before a message with %s", text)
			}
			if strings.Contains(line, text) {
				return line
			}
		case <-timeout:
			s.t.Fatalf("no message with %s", text)
		}
	}
}

// request sends a request, and returns its id. The members are those of its parameters besides _meta; about is
// the member of nodes, nil without.
func (s *stream) request(method, members string, about *clusternode.Request, meta map[string]any) (id int) {
	s.t.Helper()
	s.requests++
	all := make(map[string]any)
	for key, value := range meta {
		all[key] = value
	}
	if about != nil {
		all[clusternode.MetaKey] = about
	}
	params := strings.TrimSuffix("{"+members, ",")
	if members != "" {
		params += ","
	}
	params += `"_meta":` + string(wire.Marshal(all)) + "}"
	s.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, s.requests, method, params))
	return s.requests
}

// answer returns the answer to the request.
func (s *stream) answer(id int) string {
	s.t.Helper()
	return s.receive(fmt.Sprintf(`"id":%d,`, id))
}

func (s *stream) ask(method, members string, about *clusternode.Request, meta map[string]any) string {
	s.t.Helper()
	return s.answer(s.request(method, members, about, meta))
}

func modern(capabilities string) map[string]any {
	return map[string]any{
		"io.modelcontextprotocol/protocolVersion": session.Modern, "io.modelcontextprotocol/clientCapabilities": json.RawMessage(capabilities),
		"io.modelcontextprotocol/clientInfo": map[string]string{"name": "claude", "version": "1"},
	}
}

func by(principal string) *clusternode.Request {
	return &clusternode.Request{ID: "call of " + principal, Origin: &session.Origin{Principal: principal, Name: principal}}
}

// verify fails unless box has signed the result in an answer to a call with these members.
func (b *box) verify(answer, members string, about *clusternode.Request) {
	b.t.Helper()
	result := wire.Member([]byte(answer), "result")
	var a clusternode.Answer
	if err := json.Unmarshal(wire.Member(wire.Member(result, "_meta"), clusternode.MetaKey), &a); err != nil {
		b.t.Fatalf("%s: %v", answer, err)
	}
	params := json.RawMessage("{" + members + "}")
	tool, _ := wire.String(wire.Member(params, "name"))
	public, err := nkeys.FromPublicKey(b.identity.Key())
	if err != nil {
		b.t.Fatal(err)
	}
	signed := clusternode.Signed{ID: about.ID, Owner: b.identity.Key(), Caller: "UA", Server: "gpu", Tool: tool, Params: params, Result: result}
	if err := public.Verify(signed.Bytes(), a.Signature); err != nil {
		b.t.Errorf("%s: %v", answer, err)
	}
}

func contains(t *testing.T, what, got string, wanted ...string) {
	t.Helper()
	for _, text := range wanted {
		if !strings.Contains(got, text) {
			t.Errorf("%s: %s has no %s", what, got, text)
		}
	}
}

// Another node sees the server's own names and results, and none of our tools.
func TestServeNode(t *testing.T) {
	long := strings.Repeat("long_name_", 9)
	b := newBox(t, "-tools", "echo,answer,log,progress,error,big,hang,find_tools,"+long, "-prompts", "greet", "-resources", "doc://a,doc://b.bin", "-templates", "doc://t/{x}")
	s := b.dial()
	m := modern(`{}`)
	contains(t, "discover", s.ask("server/discover", "", nil, m), `"supportedVersions":["2026-07-28"`, `"name":"gpu"`, `"version":"1.0.0"`, `"tools":`)
	contains(t, "tools", s.ask("tools/list", "", nil, m), `"name":"echo"`, `"name":"find_tools"`, `"name":"`+long+`"`)
	contains(t, "prompts", s.ask("prompts/list", "", nil, m), `"name":"greet"`)
	contains(t, "resources", s.ask("resources/list", "", nil, m), `"uri":"doc://b.bin"`)
	contains(t, "templates", s.ask("resources/templates/list", "", nil, m), `"resourceTemplates":[`, `doc://t/{x}`)

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

	id := s.request("tools/call", `"name":"roots"`, by("ann"), nil)
	question := s.receive("roots/list")
	s.send(`{"jsonrpc":"2.0","id":` + string(wire.Member([]byte(question), "id")) + `,"result":{"roots":[{"uri":"file:///ann"}]}}`)
	contains(t, "roots", s.answer(id), "file:///ann")

	const ask = `"name":"ask","arguments":{"method":"elicitation/create"}`
	id = s.request("tools/call", ask, by("ann"), nil)
	question = s.receive("elicitation/create")
	contains(t, "question", question, `"message":"Your name?"`)
	s.send(`{"jsonrpc":"2.0","id":` + string(wire.Member([]byte(question), "id")) + `,"result":{"action":"accept","content":{"name":"Ann"}}}`)
	got := s.answer(id)
	contains(t, "answer", got, "Ann")
	b.verify(got, ask, by("ann"))

	contains(t, "subscribe", s.ask("resources/subscribe", `"uri":"doc://a"`, nil, nil), `"result":{}`)
	s.request("tools/call", `"name":"touch","arguments":{"uri":"doc://a"}`, by("ann"), nil)
	contains(t, "update", s.receive("notifications/resources/updated"), "doc://a")
}

// A stream of the modern era gets the updates that it asks for.
func TestServeNodeUpdates(t *testing.T) {
	b := newBox(t, "-tools", "touch,grow", "-resources", "doc://a,doc://b")
	s := b.dial()
	m := modern(`{}`)
	s.request("subscriptions/listen", `"notifications":{"resourceSubscriptions":["doc://a"],"toolsListChanged":true}`, nil, m)
	contains(t, "acknowledged", s.receive("notifications/subscriptions/acknowledged"), "doc://a", "toolsListChanged")
	for _, uri := range []string{"doc://b", "doc://a"} {
		s.request("tools/call", `"name":"touch","arguments":{"uri":"`+uri+`"}`, by("ann"), m)
	}
	contains(t, "update", s.receive("notifications/resources/updated"), "doc://a")
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

// The time of a call over a stream, for results of some sizes.
func BenchmarkServeNode(b *testing.B) {
	box := newBox(b, "-tools", "big")
	s := box.dial()
	for _, size := range []int{100, 1 << 20} {
		members := fmt.Sprintf(`"name":"big","arguments":{"bytes":%d}`, size)
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			for b.Loop() {
				s.ask("tools/call", members, by("ann"), modern(`{}`))
			}
		})
	}
}

// questionIn returns the key of the question in a result.
func questionIn(result json.RawMessage) (key string) {
	_ = wire.Members(wire.Member(result, "inputRequests"), func(name string, _ []byte) bool { key = name; return true })
	return key
}
