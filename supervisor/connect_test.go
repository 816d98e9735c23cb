//go:build unix

package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap/zaptest"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/fakeserver"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// served returns a connection to a fake server. end closes the server's end.
func served(t *testing.T, flags ...string) (conn net.Conn, end func()) {
	t.Helper()
	here, there := net.Pipe()
	command, args := mcptest.Command(flags...)
	server := fakeserver.Play(command, args, "", nil)
	var copying sync.WaitGroup
	copying.Go(func() {
		io.Copy(server.Stdin, there)
		server.Stdin.Close()
	})
	copying.Go(func() { io.Copy(there, server.Stdout) })
	copying.Go(func() { io.Copy(io.Discard, server.Stderr) })
	t.Cleanup(func() {
		there.Close()
		server.Kill()
		copying.Wait()
	})
	return here, func() { there.Close() }
}

// heard are the messages of a connection that belong to no request.
type heard struct {
	mu  sync.Mutex
	all []string
}

func (h *heard) hear(m session.Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, m.Method+string(m.Params))
}

func (h *heard) has(part string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Contains(strings.Join(h.all, "\n"), part)
}

func connect(t *testing.T, conn net.Conn, o ConnectOptions) *Connection {
	t.Helper()
	o.Server, o.Version, o.Log = "s", "test", zaptest.NewLogger(t)
	if o.Capabilities == nil {
		o.Capabilities = json.RawMessage(`{}`)
	}
	c, err := Connect(t.Context(), conn, o)
	expect.OK(t, err)
	t.Cleanup(func() { c.Close(errors.New("the test ends")) })
	return c
}

func toolCall(tool, arguments string, from session.Client) session.Request {
	return session.Request{Method: "tools/call", Params: fmt.Appendf(nil, `{"name":%q,"arguments":%s}`, tool, arguments), From: from}
}

// Calls, progress, questions, cancellation and subscriptions work over a connection as with a process.
func TestConnect(t *testing.T) {
	for _, modern := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			conn, end := served(t, "-era", "both", "-tools", "echo,ask,progress,hang,touch,big", "-resources", "doc://a")
			var news heard
			c := clientOf("c")
			c.capabilities = `{"elicitation":{}}`
			o := ConnectOptions{Modern: modern, OnMessage: news.hear}
			if !modern {
				o.Owner, o.Capabilities = c, c.Capabilities()
			}
			s := connect(t, conn, o)
			expect.Equal(t, s.Info().Era() == "modern", modern, "the session has %+v", s.Info())
			for arguments, want := range map[string]string{
				`{"message":"hello"}`:                              "hello",
				`{"message":"` + strings.Repeat("x", 1<<20) + `"}`: strings.Repeat("x", 1<<20),
			} {
				if raw, err := s.Call(t.Context(), toolCall("echo", arguments, c)); err != nil || !strings.Contains(string(raw), want) {
					t.Errorf("echo: %.100s, %v", raw, err)
				}
			}
			if raw, err := s.Call(t.Context(), toolCall("ask", `{"method":"elicitation/create"}`, agreeable{c})); err != nil || !strings.Contains(string(raw), "Ann") {
				t.Errorf("ask: %s, %v", raw, err)
			}
			r := toolCall("progress", `{"n":3}`, c)
			r.Meta = json.RawMessage(`{"progressToken":"p"}`)
			if raw, err := s.Call(t.Context(), r); err != nil || strings.Count(strings.Join(c.heard, " "), `"progressToken":"p"`) != 3 {
				t.Errorf("progress: %s, %v; the client heard %q", raw, err, c.heard)
			}
			ctx, cancel := context.WithCancelCause(t.Context())
			left := errors.New("the client has left")
			time.AfterFunc(100*time.Millisecond, func() { cancel(left) })
			if _, err := s.Call(ctx, toolCall("hang", `{}`, c)); !errors.Is(err, left) {
				t.Errorf("a cancelled call: %v", err)
			}
			stop, err := s.Subscribe(t.Context(), "doc://a")
			expect.OK(t, err)
			if s.RefuseIfIdle(0) {
				t.Error("a session with a subscription refuses calls")
			}
			mcptest.WaitFor(t, "the update", func() bool { // the first touches may come before the server has subscribed the client
				s.Call(t.Context(), toolCall("touch", `{"uri":"doc://a"}`, c))
				return news.has("notifications/resources/updated")
			})
			stop()
			if s.RefuseIfIdle(time.Hour) || !s.Usable() {
				t.Error("a session that was idle for less than an hour refuses calls")
			}
			end()
			<-s.Done()
			if _, err := s.Call(t.Context(), toolCall("echo", `{}`, c)); !errors.Is(err, session.ErrNotSent) {
				t.Errorf("after the end: %v", err)
			}
		})
	}
}

// A session that is idle refuses calls once its user says so, and a call under way keeps it.
func TestConnectionIdle(t *testing.T) {
	t.Parallel()
	conn, _ := served(t, "-era", "modern", "-tools", "echo,hang")
	s := connect(t, conn, ConnectOptions{Modern: true})
	ctx, cancel := context.WithCancel(t.Context())
	called := make(chan struct{})
	go func() {
		defer close(called)
		s.Call(ctx, toolCall("hang", `{}`, nil))
	}()
	mcptest.WaitFor(t, "the call", func() bool { return s.Calls.IdleFor() == 0 })
	if s.RefuseIfIdle(0) || !s.Usable() {
		t.Error("a busy session refuses calls")
	}
	cancel()
	<-called
	if !s.RefuseIfIdle(0) || s.Usable() {
		t.Error("an idle session takes calls")
	}
	if _, err := s.Call(t.Context(), toolCall("echo", `{}`, nil)); !errors.Is(err, session.ErrNotSent) {
		t.Errorf("a call of an idle session: %v", err)
	}
}

// Connect tries one era only, and ends with its context.
func TestConnectFails(t *testing.T) {
	t.Parallel()
	o := ConnectOptions{Server: "s", Capabilities: json.RawMessage(`{}`), Log: zaptest.NewLogger(t)}
	for era, flags := range map[string][]string{"modern": {"-era", "legacy"}, "legacy": {"-era", "modern"}} {
		conn, _ := served(t, flags...)
		o.Modern = era == "modern"
		if c, err := Connect(t.Context(), conn, o); err == nil {
			c.Close(nil)
			t.Errorf("a session of the %s era with a server of the other one", era)
		}
	}
	here, there := net.Pipe()
	defer there.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := Connect(ctx, here, o); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("an end that does not read: %v", err)
	}
}

// An end that does not read holds neither callers whose time is over nor the end of the session.
func TestConnectionStalls(t *testing.T) {
	t.Parallel()
	conn, _ := served(t, "-era", "modern")
	s := connect(t, &stalling{Conn: conn, stalled: make(chan struct{})}, ConnectOptions{Modern: true})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var calls sync.WaitGroup
	for range 3 {
		calls.Go(func() {
			if _, err := s.Call(ctx, toolCall("echo", `{}`, nil)); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a call that can't be written: %v", err)
			}
		})
	}
	calls.Wait()
}

// A stalling connection takes nothing after the first message.
type stalling struct {
	net.Conn
	wrote   bool
	stalled chan struct{}
	once    sync.Once
}

func (s *stalling) Write(p []byte) (int, error) {
	if s.wrote {
		<-s.stalled
		return 0, net.ErrClosed
	}
	s.wrote = true
	return s.Conn.Write(p)
}

func (s *stalling) Close() error {
	s.once.Do(func() { close(s.stalled) })
	return s.Conn.Close()
}
