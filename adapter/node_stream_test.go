package adapter_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nkeys"
	"go.uber.org/zap/zaptest"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/server"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// A box is a router that shares its server gpu with other nodes.
type box struct {
	t        testing.TB
	identity *clusternode.Identity
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
	if b.identity, err = clusternode.OpenIdentity(filepath.Join(t.TempDir(), "node.nk")); err != nil {
		t.Fatal(err)
	}
	var servers *server.Servers
	r := adapter.New(b.config, adapter.Options{
		Log:       zaptest.NewLogger(t),
		ServeNode: func(ctx context.Context, v *adapter.NodeView, conn net.Conn) { servers.ServeNode(ctx, v, conn) },
	}.Alone(b.identity))
	servers = server.NewServers(server.Profiles{Open: func(server.View, []string) (server.Router, server.Options) { return r.View, server.Options{} }, Edited: r.Edited, Address: func() string { return "UABOX.R" }})
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
			expect.OK(t, <-ended)
		}
	})
	r.Settled(ctx)
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
	<-s.ended
}

func (s *stream) send(line string) {
	s.t.Helper()
	s.conn.SetWriteDeadline(time.Now().Add(time.Minute))
	_, err := io.WriteString(s.conn, line+"\n")
	expect.OK(s.t, err)
}

// receive returns the next message that has the text.
func (s *stream) receive(text string) string {
	s.t.Helper()
	line := s.within(time.Minute, text)
	if line == "" {
		s.t.Fatalf("no message with %s", text)
	}
	return line
}

// within returns the next message that has one of the texts, "" if none has come in time.
func (s *stream) within(d time.Duration, texts ...string) string {
	s.t.Helper()
	timeout := time.After(d)
	for {
		select {
		case line, ok := <-s.lines:
			if !ok {
				s.t.Fatalf("the stream ended before a message with %s", texts)
			}
			if slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(line, text) }) {
				return line
			}
		case <-timeout:
			return ""
		}
	}
}

// touched calls the tool that changes the resources until an update comes, since the first calls may reach the server
// before the subscription does.
func (s *stream) touched(meta map[string]any, uris ...string) (update string) {
	s.t.Helper()
	for range 300 {
		for _, uri := range uris {
			s.request("tools/call", `"name":"touch","arguments":{"uri":"`+uri+`"}`, by("ann"), meta)
		}
		if update = s.within(200*time.Millisecond, "notifications/resources/updated"); update != "" {
			return update
		}
	}
	s.t.Fatal("no update of a resource")
	return ""
}

// roots calls the tool that returns the roots until it has them, since the server may read the client's after a call
// has come. It answers as a client that has this one.
func (s *stream) roots(uri string) (answer string) {
	s.t.Helper()
	for range 100 {
		id := fmt.Sprintf(`"id":%d,`, s.request("tools/call", `"name":"roots"`, by("ann"), nil))
		for answer = ""; answer == ""; {
			line := s.within(time.Minute, id, "roots/list")
			switch {
			case line == "":
				s.t.Fatal("no answer and no question")
			case strings.Contains(line, "roots/list"):
				s.send(`{"jsonrpc":"2.0","id":` + string(wire.Member([]byte(line), "id")) + `,"result":{"roots":[{"uri":"` + uri + `"}]}}`)
			default:
				answer = line
			}
		}
		if strings.Contains(answer, uri) {
			break
		}
	}
	return answer
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
	expect.OK(b.t, json.Unmarshal(wire.Member(wire.Member(result, "_meta"), clusternode.MetaKey), &a), "%s", answer)
	params := json.RawMessage("{" + members + "}")
	tool, _ := wire.String(wire.Member(params, "name"))
	public, err := nkeys.FromPublicKey(b.identity.Key())
	expect.OK(b.t, err)
	signed := clusternode.Signed{ID: about.ID, Owner: b.identity.Key(), Caller: "UA", Server: "gpu", Tool: tool, Params: params, Result: result}
	expect.OK(b.t, public.Verify(signed.Bytes(), a.Signature), "%s", answer)
}

func contains(t *testing.T, what, got string, wanted ...string) {
	t.Helper()
	for _, text := range wanted {
		expect.Contains(t, got, text, "%s: has", what)
	}
}
