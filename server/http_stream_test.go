package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// progress is what the tools of these tests say on their way.
func progress(c selector.Call, n int) {
	c.From.Notify("a", session.Message{Method: "notifications/progress", Params: fmt.Appendf(nil, `{"progress":%d}`, n)})
}

func progressed(n int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progress":%d}}`, n)
}

// scripted has tools do what the test says and then answer.
func scripted(do func(ctx context.Context, c selector.Call)) *fakeRouter {
	r := newFake(tool("a", "b"))
	r.execute = func(ctx context.Context, c selector.Call) (selector.Result, error) {
		do(ctx, c)
		return selector.Result{JSON: json.RawMessage(`{"content":[]}`)}, context.Cause(ctx)
	}
	return r
}

const (
	legacyCall = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__b"}}`
	modernCall = `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__b",` + modernMeta + `}}`
	result     = `{"jsonrpc":"2.0","id":1,"result":{"content":[]`
)

func (w *web) post(body string, header []string) *http.Response {
	w.t.Helper()
	return w.do(http.MethodPost, "/mcp", body, header...)
}

func (w *web) get(header []string, more ...string) *http.Response {
	w.t.Helper()
	return w.do(http.MethodGet, "/mcp", "", append(slices.Clip(header), more...)...)
}

// An answer that comes first and soon is JSON; anything else makes a stream. Soon
// is longer for modern requests, whose answers may have a status of their own.
func TestLazyStream(t *testing.T) {
	after := func(d time.Duration) func(context.Context, selector.Call) {
		return func(context.Context, selector.Call) { time.Sleep(d) }
	}
	for _, test := range []struct {
		name   string
		do     func(context.Context, selector.Call)
		stream []string // nil for JSON
		json   string   // the one request that is answered with JSON all the same
	}{
		{"at once", after(0), nil, ""},
		{"soon", after(lazily - 1), nil, ""},
		{"late", after(lazily + 1), []string{result}, modernCall},
		{"longer", after(longer - 1), []string{result}, modernCall},
		{"too late", after(longer + 1), []string{result}, ""},
		{"with progress", func(_ context.Context, c selector.Call) { progress(c, 1); progress(c, 2) }, []string{progressed(1), progressed(2), result}, ""},
		{"after progress", func(_ context.Context, c selector.Call) { progress(c, 1); time.Sleep(time.Minute) }, []string{progressed(1), result}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := serveWeb(t, scripted(test.do), Options{Mode: exposure.Direct}, HTTPOptions{})
				for body, header := range map[string][]string{legacyCall: w.session(), modernCall: modernHeaders("tools/call", "a__b")} {
					response := w.post(body, header)
					if test.stream == nil || body == test.json {
						defer response.Body.Close()
						expect.Equal(t, response.Header.Get("Content-Type"), "application/json", "the answer")
						continue
					}
					s, id := reading(t, response), func(int) string { return "" }
					if body == legacyCall {
						s.want("1_0", "")
						id = func(n int) string { return fmt.Sprintf("1_%d", n) }
					}
					for i, data := range test.stream {
						s.want(id(i+1), data)
					}
					s.end()
				}
			})
		})
	}
}

// An answer that deserves a status of its own has it, though its server is slow.
func TestSlowStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFake(tool("a", "b"))
		r.execute = func(context.Context, selector.Call) (selector.Result, error) {
			time.Sleep(longer - 1)
			return selector.Result{}, &session.Error{Code: conversation.CodeMissingCapability, Message: "may not sample"}
		}
		w := serveWeb(t, r, Options{Mode: exposure.Direct}, HTTPOptions{})
		status, answer := w.text(http.MethodPost, "/mcp", modernCall, modernHeaders("tools/call", "a__b")...)
		if status != http.StatusBadRequest || !strings.Contains(answer, "may not sample") {
			t.Errorf("the answer is %d %s", status, answer)
		}
	})
}

// A client that was cut off gets what it missed, and only that.
func TestResume(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		steps := make(chan int)
		w := serveWeb(t, scripted(func(_ context.Context, c selector.Call) {
			for n := range steps {
				progress(c, n)
			}
		}), Options{Mode: exposure.Direct}, HTTPOptions{})
		header := w.session()
		go func() { steps <- 1; steps <- 2 }()
		s := reading(t, w.post(legacyCall, header))
		s.want("1_0", "")
		s.want("1_1", progressed(1))
		s.body.Close()
		synctest.Wait()
		steps <- 3
		s = reading(t, w.get(header, "Last-Event-ID", "1_1"))
		s.want("1_2", progressed(2))
		s.want("1_3", progressed(3))
		steps <- 4
		s.want("1_4", progressed(4))
		other := reading(t, w.get(header, "Last-Event-ID", "1_3")) // takes over
		s.end()
		close(steps)
		other.want("1_4", progressed(4))
		other.want("1_5", result)
		other.end()
		s = reading(t, w.get(header, "Last-Event-ID", "1_4"))
		s.want("1_5", result)
		s.end()
		for _, id := range []string{"1_6", "2_0", "1", "_", "1_-1", "x_1"} {
			if status, answer := w.text(http.MethodGet, "/mcp", "", append(slices.Clip(header), "Last-Event-ID", id)...); status != 400 {
				t.Errorf("after %q: %d %s", id, status, answer)
			}
		}
	})
}

// Of a session, only so much is kept: what was finished first goes first.
func TestResumeTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFake(tool("a", "b"))
		r.execute = func(context.Context, selector.Call) (selector.Result, error) {
			time.Sleep(time.Second)
			return selector.Result{JSON: []byte(`{"x":"` + strings.Repeat("x", maxKept*2/5) + `"}`)}, nil
		}
		w := serveWeb(t, r, Options{Mode: exposure.Direct}, HTTPOptions{})
		header := w.session()
		for range 3 {
			w.text(http.MethodPost, "/mcp", legacyCall, header...)
		}
		for id, want := range map[string]int{"1_0": 400, "2_0": 200, "3_0": 200} {
			status, _ := w.text(http.MethodGet, "/mcp", "", append(slices.Clip(header), "Last-Event-ID", id)...)
			expect.Equal(t, status, want, "after "+id)
		}
	})
}

// Only the modern era takes a connection that drops for a cancelled request.
func TestDroppedConnection(t *testing.T) {
	for body, cancels := range map[string]bool{legacyCall: false, modernCall: true, strings.ReplaceAll(legacyCall, `"id"`, ` "id"`): true} {
		synctest.Test(t, func(t *testing.T) {
			r := newFake(tool("a", "b"))
			started, cancelled := r.hang()
			w := serveWeb(t, r, Options{Mode: exposure.Direct}, HTTPOptions{})
			header := w.session()
			switch {
			case body == modernCall:
				header = modernHeaders("tools/call", "a__b")
			case cancels:
				header = nil // plain
			}
			ctx, cancel := context.WithCancel(t.Context())
			w.t = t
			q, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/mcp", strings.NewReader(body))
			q.Header.Set("Content-Type", "application/json")
			for i := 0; i < len(header); i += 2 {
				q.Header.Set(header[i], header[i+1])
			}
			ended := make(chan error)
			go func() {
				response, err := w.client.Do(q)
				if err == nil {
					_, err = io.Copy(io.Discard, response.Body)
					response.Body.Close()
				}
				ended <- err
			}()
			<-started
			cancel()
			<-ended
			synctest.Wait()
			expect.Equal(t, len(cancelled) == 1, cancels, "%s: cancelled", body)
		})
	}
}

func TestCancelOverHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFake(tool("a", "b"))
		started, cancelled := r.hang()
		w := serveWeb(t, r, Options{Mode: exposure.Direct}, HTTPOptions{})
		header := w.session()
		told := make(chan struct{})
		go func() {
			defer close(told)
			<-started
			w.text(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`, header...)
		}()
		if status, answer := w.text(http.MethodPost, "/mcp", legacyCall, header...); status != 202 || answer != "" {
			t.Errorf("%d %s", status, answer)
		}
		<-cancelled
		<-told
	})
}

// A server's question goes on the stream of the call that made it ask.
func TestAskOverHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFake(tool("a", "b"))
		r.execute = func(ctx context.Context, c selector.Call) (selector.Result, error) {
			answer, err := c.From.Ask(ctx, "a", session.Message{Method: "elicitation/create", Params: json.RawMessage(`{"message":"sure?"}`)})
			return selector.Result{JSON: fmt.Appendf(nil, `{"content":[],"answer":%s}`, answer)}, err
		}
		w := serveWeb(t, r, Options{Mode: exposure.Direct}, HTTPOptions{})
		response := w.post(strings.Replace(initializing, `"capabilities":{}`, `"capabilities":{"elicitation":{}}`, 1), both)
		response.Body.Close()
		header := append(slices.Clip(both), "Mcp-Session-Id", response.Header.Get("Mcp-Session-Id"))
		s := reading(t, w.post(legacyCall, header))
		s.want("1_0", "")
		s.want("1_1", `{"jsonrpc":"2.0","id":1,"method":"elicitation/create","params":{"message":"a: sure?"}}`)
		w.text(http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"result":{"action":"accept"}}`, header...)
		s.want("1_2", result+`,"answer":{"action":"accept"}}}`)
		s.end()
	})
}

// Whoever does not read is cut off, and does not stop who speaks.
func TestSlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, cut := make(chan struct{}), make(chan error, 1)
		w := serveWeb(t, scripted(func(ctx context.Context, c selector.Call) {
			progress(c, 1)
			<-begun
			for range maxUnreadMessages + 1000 { // some are read into buffers
				progress(c, 1)
			}
			<-ctx.Done()
			cut <- context.Cause(ctx)
		}), Options{Mode: exposure.Direct}, HTTPOptions{})
		response := w.post(legacyCall, w.session())
		close(begun)
		defer response.Body.Close()
		if err := <-cut; !errors.Is(err, conversation.ErrUnread) {
			t.Error(err)
		}
		s := reading(t, response)
		for event, ok := s.next(); ok; event, ok = s.next() {
			expect.Equal(t, strings.HasPrefix(event.data, result), false, "answered all the same")
		}
	})
}

// One that reads nothing at all has its connection closed.
func TestStuckReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := serveWeb(t, scripted(func(ctx context.Context, c selector.Call) {
			progress(c, 1)
			<-ctx.Done()
		}), Options{Mode: exposure.Direct}, HTTPOptions{})
		conn, err := w.dial(t.Context(), "", "")
		expect.OK(t, err)
		defer conn.Close()
		fmt.Fprintf(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\nMcp-Protocol-Version: 2026-07-28\r\nMcp-Method: tools/call\r\nMcp-Name: a__b\r\nContent-Length: %d\r\n\r\n%s", len(modernCall), modernCall)
		defer bounded(conn)()
		time.Sleep(patience + time.Second)
		if all, err := io.ReadAll(conn); err != nil || len(all) > 0 {
			t.Errorf("%s, %v", all, err)
		}
	})
}

// Subscriptions are acknowledged first, kept alive, and ended by the server.
func TestListenOverHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFake(tool("a", "b"))
		w := serveWeb(t, r, Options{Mode: exposure.Direct}, HTTPOptions{})
		body := rpc("subscriptions/listen", `"notifications":{"toolsListChanged":true},`+modernMeta)
		response := w.post(body, modernHeaders("subscriptions/listen", ""))
		s := reading(t, response)
		s.want("", `{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged"`)
		r.replace("c", tool("c", "d"))
		s.want("", `{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":1}}}`)
		began := time.Now()
		line := ""
		for !strings.HasPrefix(line, ": still here") {
			var err error
			if line, err = s.in.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
		if waited := time.Since(began); waited > keepAlive {
			t.Errorf("kept alive after %v", waited)
		}
		response.Body.Close()
		synctest.Wait()
		subscriptions := w.server.notifier.subscriptions
		subscriptions.mu.Lock()
		defer subscriptions.mu.Unlock()
		if len(subscriptions.listeners) > 0 {
			t.Error("the subscription goes on")
		}
	})
}
