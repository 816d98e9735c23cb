package adapter_test

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/profile"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/server"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// A person is a client with a person who answers questions.
type person struct {
	home   session.Client // nil is the client itself
	modern bool
	alone  bool // it has no session

	asked atomic.Int32

	mu    sync.Mutex // guards heard
	heard []string
}

func (p *person) Home() session.Client {
	switch {
	case p.alone:
		return nil
	case p.home != nil:
		return p.home
	}
	return p
}
func (p *person) ClientName() string          { return "Ann's client" }
func (p *person) Modern() bool                { return p.modern }
func (*person) Capabilities() json.RawMessage { return json.RawMessage(`{"elicitation":{"form":{}}}`) }

func (p *person) Notify(_ string, m session.Message) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.heard = append(p.heard, m.Method+string(m.Params))
}

func (p *person) Ask(context.Context, string, session.Message) (json.RawMessage, error) {
	p.asked.Add(1)
	return json.RawMessage(`{"action":"accept","content":{"name":"Ann"}}`), nil
}

func (p *person) hears(part string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Contains(strings.Join(p.heard, "\n"), part)
}

// Package server serves other nodes in the tests of package adapter, which can't import it.
func init() {
	adapter.ServeNode = func(r func() *adapter.Router) func(context.Context, *adapter.NodeView, net.Conn) {
		servers := sync.OnceValue(func() *server.Servers {
			return server.NewServers(server.Profiles{
				Open: func(_ server.View, chosen []string) (server.Router, server.Options) {
					return r().Scope(chosen...), server.Options{}
				},
				Whole: r(),
			})
		})
		return func(ctx context.Context, v *adapter.NodeView, conn net.Conn) { servers().ServeNode(ctx, v, conn) }
	}
}

func gpu(flags ...string) config.Config {
	command, args := mcptest.Command(flags...)
	return config.Config{Servers: []config.Server{{Name: "gpu", Transport: config.Stdio, Command: command, Args: args, StartTimeout: 30 * time.Second}}}
}

func call(t *testing.T, p *adapter.Pair, id, arguments string, from session.Client, meta ...string) (selector.Result, error) {
	t.Helper()
	tool, ok := p.Laptop.Snapshot().Tool(id)
	if !ok {
		t.Fatalf("no tool %s", id)
	}
	if from != nil && !from.Modern() {
		meta = nil
	}
	all := "{" + strings.Join(append(meta, `"progressToken":"p"`), ",") + "}"
	return p.Laptop.Execute(t.Context(), selector.Call{Tool: tool, Arguments: json.RawMessage(arguments), From: from, Meta: json.RawMessage(all)})
}

// A server of another node may be shown alone; the node does not take the choice for one of its own.
func TestOnlyAServerOfANode(t *testing.T) {
	p := adapter.NewPair(t, gpu("-tools", "echo"), config.Config{})
	alone := p.Laptop.Scope(profile.Only("gpu@box"))
	tool, ok := alone.Snapshot().Tool("gpu@box:echo")
	expect.Equal(t, ok, true, "the tool is there")
	result, err := alone.Execute(t.Context(), selector.Call{Tool: tool, Arguments: json.RawMessage(`{"message":"hi"}`)})
	expect.OK(t, err)
	expect.Equal(t, result.IsError, false, "the result is an error")
}

// Two routers, with package server between them: calls, questions, progress, updates and cancellation
// are as with a server of the router.
func TestPair(t *testing.T) {
	for _, era := range []string{"legacy", "modern"} {
		t.Run(era, func(t *testing.T) {
			trace := filepath.Join(t.TempDir(), "trace")
			p := adapter.NewPair(t, gpu("-trace", trace, "-era", era, "-tools", "echo,ask,progress,touch,raw,hang,log,error", "-logging", "-resources", "doc://a", "-prompts", "greet"), config.Config{})
			modern := &person{modern: true, alone: true}
			for name, from := range map[string]*person{"legacy": {}, "modern": modern, "without a session": {alone: true}} {
				r, err := call(t, p, "gpu@box:echo", `{"message":"hello"}`, from)
				if err != nil || r.IsError || !strings.Contains(r.Text(), "hello") {
					t.Fatalf("%s: %s, %v", name, r.JSON, err)
				}
				for key, want := range map[string]string{"node_id": `"box"`, "execution_path": `["laptop","box"]`, "verified": "true", "degraded": "false", "metarouter/node": ""} {
					expect.Equal(t, string(wire.Member(r.Meta(), key)), want, "%s: _meta has %s", name, key)
				}
			}
			r, err := call(t, p, "gpu@box:raw", `{}`, modern)
			if own, _ := call(t, p, "gpu@box:raw", `{}`, nil); err != nil || !strings.Contains(string(r.JSON), `"structuredContent" : {"b":12345678901234567890, "a" : 2}`) || string(wire.Member(own.JSON, "content")) != string(wire.Member(r.JSON, "content")) {
				t.Errorf("raw: %s, %v", r.JSON, err)
			}
			if _, err := call(t, p, "gpu@box:error", `{}`, modern); err == nil || !strings.Contains(err.Error(), "always fails") {
				t.Errorf("error: %v", err)
			}
			if r, err := call(t, p, "gpu@box:progress", `{"n":2}`, modern); err != nil || !modern.hears(`"progressToken":"p"`) {
				t.Errorf("progress: %s, %v; heard %q", r.JSON, err, modern.heard)
			}
			_, err = p.Laptop.Relay(t.Context(), "gpu@box", session.Request{Method: "prompts/get", Params: json.RawMessage(`{"name":"greet"}`), From: modern})
			expect.OK(t, err, "prompts/get")
			p.Laptop.SetLevel(t.Context(), "info")
			for name, from := range map[string]*person{"legacy": {}, "modern": modern} {
				stop := p.Laptop.Listen(func(_ string, _ session.Client, m session.Message) { from.Notify("", m) })
				if r, err := call(t, p, "gpu@box:log", `{"n":1,"level":"error"}`, from, `"io.modelcontextprotocol/logLevel":"info"`); err != nil || !from.hears("notifications/message") {
					t.Errorf("%s: log: %s, %v; heard %q", name, r.JSON, err, from.heard)
				}
				stop()
			}
			expect.Equal(t, p.Streams(), 1, "streams")
			pairUpdates(t, p)
			pairCancels(t, p, trace)
			pairAsks(t, p, era)
		})
	}
}

// pairUpdates subscribes to a resource.
func pairUpdates(t *testing.T, p *adapter.Pair) {
	heard := make(chan string, 99)
	defer p.Laptop.Listen(func(server string, _ session.Client, m session.Message) { heard <- server + " " + m.Method })()
	client := new(person)
	_, cancel, err := p.Laptop.Subscribe(t.Context(), "gpu@box", "doc://a", client)
	expect.OK(t, err)
	defer cancel()
	mcptest.WaitFor(t, "the update of the resource", func() bool {
		_, err := call(t, p, "gpu@box:touch", `{"uri":"doc://a"}`, client)
		expect.OK(t, err)
		for again := time.After(200 * time.Millisecond); ; { // the server may not know of the subscription yet
			select {
			case m := <-heard:
				if m == "gpu@box notifications/resources/updated" {
					return true
				}
			case <-again:
				return false
			}
		}
	})
}

// pairCancels gives up a call.
func pairCancels(t *testing.T, p *adapter.Pair, trace string) {
	tool, _ := p.Laptop.Snapshot().Tool("gpu@box:hang")
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := p.Laptop.Execute(ctx, selector.Call{Tool: tool})
		ended <- err
	}()
	await := func(what string) {
		mcptest.WaitFor(t, "the server to read "+what, func() bool {
			text, err := os.ReadFile(trace)
			return err == nil && strings.Contains(string(text), what)
		})
	}
	await(`"hang"`)
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled call: %v", err)
	}
	await("cancelled")
}

// pairAsks has the server ask its clients, before and after the box knows that it does.
func pairAsks(t *testing.T, p *adapter.Pair, era string) {
	for knows := range 2 {
		before := p.Streams()
		for name, from := range map[string]*person{"legacy": {}, "without a session": {alone: true}} {
			r, err := call(t, p, "gpu@box:ask", `{"method":"elicitation/create"}`, from)
			if err != nil || r.IsError || !strings.Contains(r.Text(), "Ann") || from.asked.Load() != 1 {
				t.Errorf("%s, which asks: %t: %s, %v after %d questions", name, p.Asks("gpu@box"), r.JSON, err, from.asked.Load())
			}
			p.Laptop.Release(from)
		}
		from := &person{modern: true, alone: true}
		r, err := call(t, p, "gpu@box:ask", `{"method":"elicitation/create"}`, from)
		requests := wire.Member(r.JSON, "inputRequests")
		if err != nil || requests == nil {
			t.Fatalf("modern: %s, %v", r.JSON, err)
		}
		answers := "{"
		wire.Members(requests, func(key string, _ []byte) bool {
			answers += `"` + key + `":{"action":"accept","content":{"name":"Bea"}}`
			return true
		})
		tool, _ := p.Laptop.Snapshot().Tool("gpu@box:ask")
		params := wire.Marshal(map[string]any{"name": "ask", "arguments": map[string]string{"method": "elicitation/create"}, "inputResponses": json.RawMessage(answers + "}"), "requestState": json.RawMessage(wire.Member(r.JSON, "requestState"))})
		r, err = p.Laptop.Execute(t.Context(), selector.Call{Tool: tool, Arguments: wire.Member(params, "arguments"), Params: params, From: from})
		if err != nil || !strings.Contains(r.Text(), "Bea") || string(wire.Member(r.Meta(), "verified")) != "true" {
			t.Errorf("modern, with the answer: %s, %v", r.JSON, err)
		}
		if own := p.Streams() - before; own > 0 != (knows == 1 && era == "legacy") {
			t.Errorf("%d streams of clients, which asks: %t", own, p.Asks("gpu@box"))
		}
		p.Learn(t)
	}
}
