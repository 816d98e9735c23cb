package server

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// What belongs to no request waits for the stream that stands.
func TestStandingStream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFake(tool("a", "b"))
		w := serveWeb(t, r, Options{Mode: exposure.Direct}, HTTPOptions{})
		header := w.session()
		r.replace("c", tool("c", "d"))
		time.Sleep(time.Second)
		s := reading(t, w.get(header))
		s.want("0_1", `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		second := reading(t, w.get(header)) // takes over
		s.end()
		second.body.Close()
		synctest.Wait()
		r.replace("e", tool("e", "f"))
		time.Sleep(time.Hour) // the session has expired meanwhile
		w.gets("an expired session", 404, "", http.MethodGet, "/mcp", "", header...)
		header = w.session()
		s = reading(t, w.get(header))
		heard := make(chan struct{})
		go func() {
			defer close(heard)
			s.want("0_1", `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`)
		}()
		time.Sleep(time.Hour) // an open stream keeps it
		r.replace("g", tool("g", "h"))
		<-heard
		w.gets("DELETE", 204, "", http.MethodDelete, "/mcp", "", header...)
		s.end()
		w.gets("a deleted session", 404, "", http.MethodPost, "/mcp", rpc("ping", ""), header...)
	})
}

func TestSessionsMakeRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := serveWeb(t, newFake(), Options{}, HTTPOptions{MaxSessions: 2})
		first := w.session()
		time.Sleep(time.Second)
		second := w.session()
		time.Sleep(time.Second)
		w.text(http.MethodPost, "/mcp", rpc("ping", ""), first...)
		w.session()
		w.gets("the one that was idle for the longest", 404, "", http.MethodPost, "/mcp", rpc("ping", ""), second...)
		defer w.get(first).Body.Close()
		defer w.get(w.session()).Body.Close()
		w.gets("with no room", 503, "too many sessions", http.MethodPost, "/mcp", initializing, both...)
	})
}

// Close lets calls finish, for a while, and takes no more.
func TestCloseHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		finish := make(chan struct{})
		w := serveWeb(t, scripted(func(ctx context.Context, c selector.Call) {
			progress(c, 1)
			select {
			case <-finish:
			case <-ctx.Done():
			}
		}), Options{Mode: exposure.Direct}, HTTPOptions{})
		header := w.session()
		standing := reading(t, w.get(header))
		call := reading(t, w.post(legacyCall, header))
		call.want("1_0", "")
		call.want("1_1", progressed(1))
		synctest.Wait() // it is the first to wait for finish
		stuck := reading(t, w.post(modernCall, modernHeaders("tools/call", "a__b")))
		stuck.want("", progressed(1))
		listening := reading(t, w.post(rpc("subscriptions/listen", `"notifications":{},`+modernMeta), modernHeaders("subscriptions/listen", "")))
		closed := make(chan time.Duration)
		go func() {
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			w.handler.Close(ctx)
			closed <- time.Since(began)
		}()
		synctest.Wait()
		w.gets("a new call", 503, "", http.MethodPost, "/mcp", legacyCall, header...)
		finish <- struct{}{}
		one, other := call, stuck
		line, ok := one.next()
		if !ok || !strings.HasPrefix(line.data, result) {
			t.Errorf("the call that finished: %+v", line)
		}
		line, ok = other.next()
		if !ok || !strings.Contains(line.data, `"error":{"code":-32603,"message":"the router is going away"`) {
			t.Errorf("the call that did not: %+v", line)
		}
		if waited := <-closed; waited > 10*time.Second+2*lastPatience {
			t.Errorf("closed after %v", waited)
		}
		for _, s := range []*events{standing, call, stuck} {
			s.end()
		}
		listening.body.Close()
		w.gets("after the end", 503, "", http.MethodGet, "/health", "")
	})
}

// A panic is an error of one request.
func TestPanic(t *testing.T) {
	r := scripted(func(context.Context, selector.Call) { panic("oh") })
	w := serveWeb(t, r, Options{Mode: exposure.Direct, Scripts: true, Runner: realScripts{newEngine(t), r}}, HTTPOptions{})
	asking := strings.Replace(modernCall, `clientCapabilities":{}`, `clientCapabilities":{"sampling":{}}`, 1)
	for body, header := range map[string][]string{legacyCall: w.session(), modernCall: modernHeaders("tools/call", "a__b"), asking: modernHeaders("tools/call", "a__b"), `{"id":1,"method":"tools/call","params":{"name":"a__b"}}`: nil} {
		script := strings.Replace(body, `"name":"a__b"`, `"name":"run_script","arguments":{"code":"await call('a:b')"}`, 1)
		for name, body := range map[string]string{"a__b": body, "run_script": script} {
			for i, value := range header {
				if value == "a__b" || value == "run_script" {
					header[i] = name
				}
			}
			if _, answer := w.text(http.MethodPost, "/mcp", body, header...); !strings.HasPrefix(answer, `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,`) {
				t.Errorf("%s: %s", body, answer)
			}
		}
	}
}

// A session keeps its client's capabilities, so they are bounded.
func TestLongCapabilities(t *testing.T) {
	w := serveWeb(t, newFake(tool("a", "b")), Options{Mode: exposure.Direct}, HTTPOptions{})
	for size, want := range map[int]string{60 << 10: `"result":`, 64 << 10: "the capabilities have 65555 bytes, at most 65536 are allowed"} {
		body := strings.Replace(initializing, `"capabilities":{}`, `"capabilities":{"experimental":"`+strings.Repeat("x", size)+`"}`, 1)
		_, answer := w.text(http.MethodPost, "/mcp", body, both...)
		expect.Contains(t, answer, want, "%d bytes", size)
	}
}
