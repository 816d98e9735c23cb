package server

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/classify"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/execute"
	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

func TestMain(m *testing.M) {
	mcptest.ServeIfAsked()
	goleak.VerifyTestMain(m, goleak.IgnoreCurrent()) // bleve starts workers when it is imported
}

var _ Router = (*adapter.Router)(nil)

// A fakeRouter has the real registry and the real validation; what it finds and
// what tools answer is up to the test.
type fakeRouter struct {
	*registry.Registry
	validate  *execute.Executor
	late      []string      // servers that are not listed before they have tools
	settled   chan struct{} // closed when all servers are listed
	servers   []status.Server
	nodes     []clusternode.Info
	ranking   selector.Ranking
	selection selector.Selection
	plan      []selector.Step
	query     selector.Query // the last one
	execute   func(context.Context, selector.Call) (selector.Result, error)
	relay     func(context.Context, string, session.Request) (json.RawMessage, error)
	logIn     func(context.Context, session.Client, error) (bool, error) // nil: no login helps
	await     func() error                                               // what Await does; nil fails

	hear         atomic.Pointer[func(string, session.Client, session.Message)] // who listens
	level        atomic.Value                                                  // of log messages, a string
	forbidden    atomic.Pointer[error]                                         // why no resource can be subscribed to
	lost         chan struct{}                                                 // closed when subscriptions are forgotten
	unsubscribed chan string
}

func newFake(tools ...registry.NormalizedTool) *fakeRouter {
	r := &fakeRouter{Registry: registry.New(), settled: make(chan struct{}), lost: make(chan struct{}), unsubscribed: make(chan string, 100)}
	close(r.settled)
	r.validate = execute.New(execute.Options{Registry: r.Registry, Log: zap.NewNop()})
	r.relay = func(_ context.Context, server string, q session.Request) (json.RawMessage, error) {
		return fmt.Appendf(nil, `{"server":%q,"method":%q,"params":%s}`, server, q.Method, q.Params), nil
	}
	r.execute = func(_ context.Context, c selector.Call) (selector.Result, error) {
		return selector.Result{JSON: fmt.Appendf(nil, `{"content":[],"tool":%q,"arguments":%s}`, c.Tool.ID, c.Arguments)}, nil
	}
	byServer := map[string][]registry.NormalizedTool{}
	for _, t := range tools {
		byServer[t.Server] = append(byServer[t.Server], t)
	}
	for server, tools := range byServer {
		r.replace(server, tools...)
	}
	return r
}

// answering answers each call with the result.
func answering(result string) func(context.Context, selector.Call) (selector.Result, error) {
	return func(context.Context, selector.Call) (selector.Result, error) {
		return selector.Result{JSON: json.RawMessage(result)}, nil
	}
}

func (r *fakeRouter) replace(server string, tools ...registry.NormalizedTool) {
	if _, err := r.Replace(server, registry.Offer{Tools: tools}); err != nil {
		panic(err)
	}
}

func (r *fakeRouter) Tools() []*registry.NormalizedTool { return r.Snapshot().Tools() }

func (r *fakeRouter) LogIn(ctx context.Context, from session.Client, err error) (bool, error) {
	if r.logIn == nil {
		return false, nil
	}
	return r.logIn(ctx, from, err)
}

func (r *fakeRouter) Settled(ctx context.Context) error {
	select {
	case <-r.settled:
	case <-ctx.Done():
	}
	return nil
}

func (r *fakeRouter) Await(_ context.Context, server string) error {
	if r.await != nil {
		return r.await()
	}
	return fmt.Errorf("server %q is failed: no licence: %w", server, session.ErrNotSent)
}
func (r *fakeRouter) Servers() []status.Server  { return r.servers }
func (r *fakeRouter) Nodes() []clusternode.Info { return r.nodes }

func (r *fakeRouter) Unlisted() (names []string) {
	for _, name := range r.late {
		if len(r.Snapshot().Offer(name).Tools) == 0 {
			names = append(names, name)
		}
	}
	return names
}

// Find abstains while the catalog is empty, and so does Select.
func (r *fakeRouter) Find(ctx context.Context, q selector.Query) (selector.Ranking, error) {
	r.query = q
	if len(r.Tools()) == 0 {
		return selector.Ranking{Abstained: true}, nil
	}
	return r.ranking, nil
}

func (r *fakeRouter) Select(ctx context.Context, q selector.Query) (selector.Selection, error) {
	r.query = q
	if len(r.Tools()) == 0 {
		return selector.Selection{Abstained: true}, nil
	}
	return r.selection, nil
}

func (r *fakeRouter) Plan(context.Context, selector.Query) ([]selector.Step, error) {
	return r.plan, nil
}

// Classifier knows two categories.
func (r *fakeRouter) Classifier() *classify.Classifier {
	c := config.DefaultClassification()
	c.Categories = []config.Category{
		{Name: "math", Description: "Numbers", Examples: []string{"What is 2 + 2?", "Solve the equation", "the area of a circle"}},
		{Name: "history", SystemPrompt: "You remember.", Examples: []string{"Who was the first emperor of Rome?", "When did the war begin?"}},
	}
	return classify.New(c, nil, "", zap.NewNop())
}

func (r *fakeRouter) Relay(ctx context.Context, server string, q session.Request) (json.RawMessage, error) {
	return r.relay(ctx, server, q)
}

func (r *fakeRouter) Subscribe(_ context.Context, server, uri string, _ session.Client) (<-chan struct{}, func(), error) {
	if err := r.forbidden.Load(); err != nil {
		return nil, nil, *err
	}
	return r.lost, func() { r.unsubscribed <- server + " " + uri }, nil
}

func (r *fakeRouter) Listen(f func(string, session.Client, session.Message)) func() {
	r.hear.Store(&f)
	return func() {}
}
func (r *fakeRouter) Release(session.Client)                       {}
func (r *fakeRouter) Tell(session.Client, string, json.RawMessage) {}
func (r *fakeRouter) SetLevel(_ context.Context, level string)     { r.level.Store(level) }

func (r *fakeRouter) Execute(ctx context.Context, c selector.Call) (selector.Result, error) {
	return r.execute(ctx, c)
}

func (r *fakeRouter) Check(ctx context.Context, t *registry.NormalizedTool, args json.RawMessage) selector.Checked {
	return r.validate.Check(ctx, t, args)
}

// tool returns a tool whose definition has an odd order of keys, an integer that
// no float holds, and a member that nobody knows.
func tool(server, name string) registry.NormalizedTool {
	schema := json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer","maximum":9007199254740993}}}`)
	return registry.NormalizedTool{
		ID: registry.ID(server, name), Server: server, Name: name, Description: "Does " + name + ". And more.",
		InputSchema: schema,
		Definition:  fmt.Appendf(nil, `{"x-new":[1,{"z":1,"a":2}],"inputSchema":%s,"name":%q,"description":"Does %[2]s <&>. And more."}`, schema, name),
	}
}

func info(name string, state status.State, tools int) status.Server {
	return status.Server{Status: status.Status{Name: name, State: state}, Tools: tools}
}

// A client speaks lines.
type client struct {
	t      *testing.T
	server *alone
	in     io.WriteCloser
	lines  chan string
	ended  chan error // the result of Run
}

// serve serves one client while the server runs.
func serve(ctx context.Context, s *alone, in io.Reader, out io.Writer) error {
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	ran := make(chan error, 1)
	go func() { ran <- s.Run(running) }()
	defer func() {
		end()
		<-ran
	}()
	return s.Serve(ctx, nil, in, out)
}

// connect serves one client until the test ends.
func connect(t *testing.T, r Router, o Options) *client {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	s := newAlone(r, o)
	c := &client{t: t, server: s, in: inW, lines: make(chan string, 10000), ended: make(chan error, 1)}
	go func() {
		err := serve(t.Context(), s, inR, outW)
		outW.Close()
		c.ended <- err
	}()
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer close(c.lines)
		lines := bufio.NewReader(outR)
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			c.lines <- strings.TrimSuffix(line, "\n")
		}
	}()
	t.Cleanup(func() {
		inW.Close()
		<-read
	})
	return c
}

// initialized is a client of [connect] that has initialized its session.
func initialized(t *testing.T, r Router, o Options) *client {
	t.Helper()
	c := connect(t, r, o)
	c.initialize()
	return c
}

// quiet wants that a minute passes without a message.
func (c *client) quiet(what string) {
	c.t.Helper()
	time.Sleep(time.Minute)
	synctest.Wait()
	if len(c.lines) > 0 {
		c.t.Errorf("%s: %s", what, <-c.lines)
	}
}

func (c *client) send(line string) {
	c.t.Helper()
	_, err := io.WriteString(c.in, line+"\n")
	expect.OK(c.t, err)
}

func (c *client) receive() string {
	c.t.Helper()
	line, ok := <-c.lines
	if !ok {
		c.t.Fatal("the server ended")
	}
	return line
}

// ask sends one line and returns the next that comes.
func (c *client) ask(line string) string {
	c.t.Helper()
	c.send(line)
	return c.receive()
}

func (c *client) want(line, want string) {
	c.t.Helper()
	expect.Equal(c.t, c.ask(line), want, "%s", line)
}

func (c *client) wantPrefix(line, want string) {
	c.t.Helper()
	if got := c.ask(line); !strings.HasPrefix(got, want) {
		c.t.Errorf("%s\n got %s\nwant %s…", line, got, want)
	}
}

const initializing = `{"jsonrpc":"2.0","id":"init","method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}`

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

func (c *client) initialize() {
	c.t.Helper()
	c.wantPrefix(initializing, `{"jsonrpc":"2.0","id":"init","result":{`)
	c.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

func TestInitializeBeforeAnythingIsUp(t *testing.T) {
	r := newFake()
	r.late, r.settled = []string{"late"}, make(chan struct{})
	c := connect(t, r, Options{Mode: exposure.Direct, ListWait: time.Hour, Version: "1.2.3"})
	answer := c.ask(initializing)
	for _, part := range []string{`"protocolVersion":"2025-11-25"`, `"capabilities":{"tools":{"listChanged":true},`, `"version":"1.2.3"`, `"instructions":"`} {
		expect.Contains(t, answer, part)
	}
	c.want(`{"jsonrpc":"2.0","id":2,"method":"ping"}`, `{"jsonrpc":"2.0","id":2,"result":{}}`)
}

// A client that names no revision is answered with one that was current when such clients were
// made, and one that names an unknown revision with the latest.
func TestRevisionIsNegotiated(t *testing.T) {
	for params, want := range map[string]string{
		`{}`: "2025-03-26", `{"protocolVersion":null}`: "2025-03-26", `{"protocolVersion":""}`: "2025-03-26",
		`{"protocolVersion":"2024-11-05"}`: "2024-11-05", `{"protocolVersion":"2025-06-18"}`: "2025-06-18", `{"protocolVersion":"2031-01-01"}`: "2025-11-25",
	} {
		c := connect(t, newFake(tool("a", "b")), Options{Mode: exposure.Direct})
		c.wantPrefix(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":`+params+`}`, `{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"`+want+`"`)
		c.wantPrefix(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, `{"jsonrpc":"2.0","id":2,"result":{"tools":[`)
	}
}

func TestDiscoverThenInitialize(t *testing.T) {
	c := connect(t, newFake(tool("a", "b")), Options{Mode: exposure.Direct})
	answer := c.ask(`{"jsonrpc":"2.0","id":1,"method":"server/discover","params":{` + modernMeta + `}}`)
	for _, part := range []string{`"supportedVersions":["2026-07-28"`, `"resultType":"complete"`, `"cacheScope":"private"`, `"ttlMs":0`, `"instructions":"`, `"io.modelcontextprotocol/serverInfo":{"name":"metarouter"`} {
		expect.Contains(t, answer, part)
	}
	c.initialize()
	c.wantPrefix(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`, `{"jsonrpc":"2.0","id":2,"result":{"tools":[{"x-new":[1,{"z":1,"a":2}],"inputSchema":{"type":"object","properties":{"n":{"type":"integer","maximum":9007199254740993}}},"name":"a__b","description":"Does b <&>. And more."}]}}`)
}

func TestModernRequests(t *testing.T) {
	c := connect(t, newFake(tool("a", "b")), Options{Mode: exposure.Direct})
	list := c.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{` + modernMeta + `}}`)
	for _, part := range []string{`"resultType":"complete"`, `"cacheScope":"private"`, `"ttlMs":0`, `"io.modelcontextprotocol/serverInfo":{"name":"metarouter"`} {
		expect.Contains(t, list, part)
	}
	c.want(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"a__b","arguments":{"n":9007199254740993},`+modernMeta+`}}`,
		`{"jsonrpc":"2.0","id":2,"result":{"content":[],"tool":"a:b","arguments":{"n":9007199254740993},"resultType":"complete","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"metarouter","title":"Metarouter","version":"devel"}}}}`)
	c.wantPrefix(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"a__b","_meta":{"io.modelcontextprotocol/protocolVersion":"2099-01-01"}}}`,
		`{"jsonrpc":"2.0","id":3,"error":{"code":-32022,"message":"unsupported protocol version 2099-01-01","data":{"supported":["2026-07-28"`)
	c.wantPrefix(`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"a__b","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}`,
		`{"jsonrpc":"2.0","id":4,"error":{"code":-32602,`)
}

func TestBadMessages(t *testing.T) {
	c := connect(t, newFake(tool("a", "b"), tool("a", "read_file")), Options{Mode: exposure.Direct})
	for _, test := range []struct{ line, want string }{
		{`{"jsonrpc":"2.0","id":1,`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,`},
		{`hello`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,`},
		{`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`},
		{`"text"`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`},
		{`{"jsonrpc":"2.0","id":7}`, `{"jsonrpc":"2.0","id":7,"error":{"code":-32600,`},
		{`{"jsonrpc":"2.0","id":8,"method":1}`, `{"jsonrpc":"2.0","id":8,"error":{"code":-32600,`},
		{`{"jsonrpc":"2.0","id":{},"method":"ping"}`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`},
		{`{"jsonrpc":"1.0","id":9,"method":"ping"}`, `{"jsonrpc":"2.0","id":9,"error":{"code":-32600,`},
		{`{"jsonrpc":"2.0","id":10,"method":"tools/call","params":{"name":"a__b"}}`, `{"jsonrpc":"2.0","id":10,"error":{"code":-32600,"message":"tools/call before initialize"}}`},
	} {
		c.wantPrefix(test.line, test.want)
	}
	c.initialize()
	for _, test := range []struct{ line, want string }{
		{`{"jsonrpc":"2.0","id":1,"method":"no/such"}`, `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,`},
		{`{"jsonrpc":"2.0","id":2,"method":"tools/call"}`, `{"jsonrpc":"2.0","id":2,"error":{"code":-32602,`},
		{`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":[]}`, `{"jsonrpc":"2.0","id":3,"error":{"code":-32602,`},
		{`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"a__c"}}`, `{"jsonrpc":"2.0","id":4,"error":{"code":-32602,"message":"unknown tool \"a__c\"`},
		{`{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"a__reed_file"}}`, `{"jsonrpc":"2.0","id":4,"error":{"code":-32602,"message":"unknown tool \"a__reed_file\"; did you mean a__read_file?"`},
		{`{"jsonrpc":"2.0","id":5,"method":"tools/list","params":{"cursor":"nonsense"}}`, `{"jsonrpc":"2.0","id":5,"error":{"code":-32602,`},
	} {
		c.wantPrefix(test.line, test.want)
	}
	c.want(`{"jsonrpc":"2.0","id":6,"method":"ping"}`, `{"jsonrpc":"2.0","id":6,"result":{}}`)
}

// A line above the limit is skipped, and the session goes on.
func TestLineTooLong(t *testing.T) {
	c := connect(t, newFake(), Options{Mode: exposure.Direct})
	go func() {
		chunk := strings.Repeat("x", 1<<20)
		for range 65 {
			io.WriteString(c.in, chunk)
		}
		io.WriteString(c.in, "\n")
	}()
	if got := c.receive(); !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`) {
		t.Error(got)
	}
	c.initialize()
}

func TestCallPassesBytes(t *testing.T) {
	r := newFake(tool("a", "b"))
	const result = `{"zzz":1,"content":[{"type":"text","text":"","data":12345678901234567890.10,"b":1,"a":2},{"type":"text","text":"\u00e9 <&>"}],"isError":false,"_meta":{"n":9007199254740993}}`
	var got selector.Call
	r.execute = func(_ context.Context, c selector.Call) (selector.Result, error) {
		got = c
		return selector.Result{JSON: json.RawMessage(result)}, nil
	}
	c := initialized(t, r, Options{Mode: exposure.Direct})
	const params = `{"_meta":{"progressToken":9007199254740993},"name":"a__b","arguments":{"b":1,"a":12345678901234567890},"task":{"ttl":1}}`
	for _, id := range []string{`12345678901234567890`, `"a\u0062c"`, `1`} {
		c.want(`{"jsonrpc":"2.0","id":`+id+`,"method":"tools/call","params":`+params+`}`, `{"jsonrpc":"2.0","id":`+id+`,"result":`+result+`}`)
	}
	if string(got.Params) != params || string(got.Meta) != `{"progressToken":9007199254740993}` || string(got.Arguments) != `{"b":1,"a":12345678901234567890}` {
		t.Errorf("executed with params %s, arguments %s", got.Params, got.Arguments)
	}
	// By call_tool, the same.
	c.want(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"call_tool","arguments":{"tool":"a.b","arguments":{"n": 1}}}}`, `{"jsonrpc":"2.0","id":2,"result":`+result+`}`)
	expect.Equal(t, string(got.Arguments), `{"n": 1}`, "executed with arguments")
}

func TestServerErrorPassesOn(t *testing.T) {
	r := newFake(tool("a", "b"))
	r.execute = func(context.Context, selector.Call) (selector.Result, error) {
		return selector.Result{}, &session.Error{Code: -32042, Message: "go <there>", Data: json.RawMessage(`{"n":9007199254740993}`)}
	}
	c := initialized(t, r, Options{Mode: exposure.Direct})
	c.want(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__b"}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32042,"message":"go <there>","data":{"n":9007199254740993}}}`)
	r.execute = func(context.Context, selector.Call) (selector.Result, error) {
		return selector.Result{}, errors.New("out of luck")
	}
	c.want(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"a__b"}}`,
		`{"jsonrpc":"2.0","id":2,"error":{"code":-32603,"message":"out of luck"}}`)
}

// hang makes tools not answer before they are cancelled.
func (r *fakeRouter) hang() (started, cancelled chan string) {
	started, cancelled = make(chan string, 2000), make(chan string, 2000)
	r.execute = func(ctx context.Context, c selector.Call) (selector.Result, error) {
		started <- string(c.Arguments)
		<-ctx.Done()
		cancelled <- string(c.Arguments)
		return selector.Result{}, context.Cause(ctx)
	}
	return started, cancelled
}

func TestCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFake(tool("a", "b"))
		started, cancelled := r.hang()
		c := initialized(t, r, Options{Mode: exposure.Direct})
		call := `{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{"name":"a__b","arguments":{}}}`
		c.send(call)
		<-started
		c.wantPrefix(call, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`) // the id is in use
		c.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"x","reason":"no"}}`)
		<-cancelled
		synctest.Wait()
		if len(c.lines) > 0 {
			t.Errorf("a cancelled call was answered: %s", <-c.lines)
		}
		c.send(call) // the id is free again
		<-started
		c.want(`{"jsonrpc":"2.0","id":2,"method":"ping"}`, `{"jsonrpc":"2.0","id":2,"result":{}}`)
	})
}

func TestEndOfInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFake(tool("a", "b"))
		started, cancelled := r.hang()
		c := initialized(t, r, Options{Mode: exposure.Direct})
		c.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__b"}}`)
		<-started
		c.in.Close()
		expect.OK(t, <-c.ended, "Run =")
		expect.Equal(t, len(cancelled), 1, "Run returned with a call in flight")
		if line := <-c.lines; !strings.HasPrefix(line, `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,`) {
			t.Errorf("the call in flight was answered: %s", line)
		}
	})
}

// Requests can be piped in: what they ask for is answered though the input ends
// right behind them.
func TestPipedRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFake(tool("a", "b"))
		r.execute = func(context.Context, selector.Call) (selector.Result, error) {
			time.Sleep(5 * time.Second) // as a first classification may take
			return selector.Result{JSON: json.RawMessage(`{}`)}, nil
		}
		var out strings.Builder
		in := initializing + "\n" +
			`{"jsonrpc":"2.0","id":1,"method":"tools/list"}` + "\n" +
			`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"a__b"}}`
		expect.OK(t, serve(t.Context(), newAlone(r, Options{Mode: exposure.Direct}), strings.NewReader(in), &out))
		for _, id := range []string{`"init"`, `1`, `2`} {
			expect.Contains(t, out.String(), `"id":`+id+`,"result":`, "no answer to %s in", id)
		}
	})
}

// deserted is the output to a client that has gone.
type deserted struct{ strings.Builder }

func (*deserted) HasReader() bool { return false }

// Of a client that has gone nothing is left a second later, whatever it had asked for.
func TestDeserted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFake(tool("a", "b"))
		_, cancelled := r.hang()
		began := time.Now()
		in := initializing + "\n" + `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"a__b"}}`
		expect.OK(t, serve(t.Context(), newAlone(r, Options{Mode: exposure.Direct}), strings.NewReader(in), &deserted{}))
		<-cancelled
		expect.Equal(t, time.Since(began), readerCheck, "it took")
	})
}

func TestContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFake(tool("a", "b"))
		r.settled = make(chan struct{})
		started, cancelled := r.hang()
		ctx, cancel := context.WithCancelCause(t.Context())
		in, inW := io.Pipe()
		done := make(chan error)
		go func() {
			done <- serve(ctx, newAlone(r, Options{Mode: exposure.Direct, ListWait: time.Hour}), in, io.Discard)
		}()
		fmt.Fprintln(inW, initializing)
		fmt.Fprintln(inW, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__b"}}`)
		fmt.Fprintln(inW, `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`) // waits for servers
		<-started
		cancel(errors.New("a signal, say"))
		if err := <-done; err != nil || len(cancelled) != 1 {
			t.Errorf("Run = %v with %d of 1 call cancelled", err, len(cancelled))
		}
	})
}

// A client that does not read cannot keep Run from returning.
func TestClientDoesNotRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFake(tool("a", "b"))
		in, inW := io.Pipe()
		outR, out := io.Pipe()
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- serve(ctx, newAlone(r, Options{Mode: exposure.Direct}), in, out) }()
		fmt.Fprintln(inW, initializing)
		outR.Read(make([]byte, 1))
		cancel()
		if err := <-done; err == nil {
			t.Error("Run says nothing of it")
		}
		outR.Close()
	})
}

type brokenWriter struct{ err error }

func (w brokenWriter) Write([]byte) (int, error) { return 0, w.err }

func TestWriteFails(t *testing.T) {
	full := errors.New("disk full")
	for broken, want := range map[error]error{io.ErrClosedPipe: nil, full: full} {
		in, inW := io.Pipe()
		done := make(chan error)
		go func() { done <- serve(t.Context(), newAlone(newFake(), Options{}), in, brokenWriter{broken}) }()
		fmt.Fprintln(inW, "nonsense")
		if err := <-done; !errors.Is(err, want) {
			t.Errorf("%v: Run = %v", broken, err)
		}
	}
}

func TestManyCallsAtOnce(t *testing.T) {
	r := newFake(tool("a", "b"))
	all := make(chan struct{})
	arrived := make(chan struct{}, maxInFlight+1)
	r.execute = func(_ context.Context, c selector.Call) (selector.Result, error) {
		arrived <- struct{}{}
		<-all
		return selector.Result{JSON: c.Arguments}, nil
	}
	c := initialized(t, r, Options{Mode: exposure.Direct})
	call := func(id int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"a__b","arguments":{"n":%[1]d}}}`, id)
	}
	for id := range maxInFlight {
		c.send(call(id))
	}
	for range maxInFlight {
		<-arrived
	}
	c.wantPrefix(call(maxInFlight), `{"jsonrpc":"2.0","id":1000,"error":{"code":-32603,"message":"busy`)
	close(all)
	seen := map[string]bool{}
	for range maxInFlight {
		var m struct {
			ID     json.Number
			Result struct{ N json.Number }
		}
		if err := json.Unmarshal([]byte(c.receive()), &m); err != nil || m.ID != m.Result.N || seen[m.ID.String()] {
			t.Fatalf("%+v, %v", m, err)
		}
		seen[m.ID.String()] = true
	}
}

// The SDK's own client, in both eras, over stdio and over HTTP.
func TestSDKClient(t *testing.T) {
	stdio := func(t *testing.T, r *fakeRouter) (mcp.Transport, func() bool, chan error) {
		inR, inW := io.Pipe()
		outR, outW := io.Pipe()
		done := make(chan error)
		s := newAlone(r, Options{Mode: exposure.Direct})
		go func() { done <- serve(t.Context(), s, inR, outW) }()
		return &mcp.IOTransport{Reader: outR, Writer: inW}, func() bool { return s.notifier.baseline() != nil }, done
	}
	web := func(t *testing.T, r *fakeRouter) (mcp.Transport, func() bool, chan error) {
		w := serveWeb(t, r, Options{Mode: exposure.Direct}, HTTPOptions{Tokens: tokens("secret")})
		w.client.Transport = bearing{w.client.Transport}
		return &mcp.StreamableClientTransport{Endpoint: "http://localhost/mcp", HTTPClient: w.client}, func() bool { return true }, nil
	}
	for name, open := range map[string]func(*testing.T, *fakeRouter) (mcp.Transport, func() bool, chan error){"stdio": stdio, "HTTP": web} {
		for _, version := range []string{session.Modern, "2025-11-25"} {
			t.Run(name+" "+version, func(t *testing.T) {
				r := newFake(tool("a", "one"), tool("a", "two"))
				r.execute = answering(`{"content":[{"type":"text","text":"done"}]}`)
				transport, listens, done := open(t, r)
				changed := make(chan struct{}, 10)
				c := mcp.NewClient(&mcp.Implementation{Name: "test"}, &mcp.ClientOptions{
					ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { changed <- struct{}{} },
				})
				asked := strings.TrimPrefix(version, session.Modern) // "" is the newest revision
				cs, err := c.Connect(t.Context(), transport, &mcp.ClientSessionOptions{ProtocolVersion: asked})
				expect.OK(t, err)
				if got := cs.InitializeResult(); got.ProtocolVersion != version || got.Instructions == "" {
					t.Errorf("initialized with %+v", got)
				}
				list, err := cs.ListTools(t.Context(), nil)
				if err != nil || len(list.Tools) != 2 || list.Tools[0].Name != "a__one" {
					t.Fatalf("list = %+v, %v", list, err)
				}
				result, err := cs.CallTool(t.Context(), &mcp.CallToolParams{Name: "a__one", Arguments: map[string]any{"n": 1}})
				if err != nil || result.Content[0].(*mcp.TextContent).Text != "done" {
					t.Fatalf("call = %+v, %v", result, err)
				}
				mcptest.WaitFor(t, "the client to listen", listens)
				r.replace("b", tool("b", "three"))
				<-changed
				if list, err = cs.ListTools(t.Context(), nil); err != nil || len(list.Tools) != 3 {
					t.Fatalf("list = %+v, %v", list, err)
				}
				expect.OK(t, cs.Close())
				if done != nil {
					expect.OK(t, <-done)
				}
			})
		}
	}
}

// say has the server's face hear what a server says, once it listens.
func (r *fakeRouter) say(server string, to session.Client, m session.Message) {
	for r.hear.Load() == nil {
		time.Sleep(time.Millisecond)
	}
	(*r.hear.Load())(server, to, m)
}

// alone is the server of a router without profiles.
type alone struct {
	*Server
	*Servers
}

func newAlone(r Router, o Options) *alone {
	all := NewServers(Profiles{Open: func(View, []string) (Router, Options) { return r, o }, Whole: r})
	return &alone{all.Default, all}
}
