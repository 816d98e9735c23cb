package server

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A body that never comes holds nobody up: neither a request that is refused
// before it is read nor the end of all.
func TestUnsentBody(t *testing.T) {
	for name, head := range map[string]string{
		"refused":  "POST /mcp HTTP/1.1\r\nHost: " + strings.Repeat("a", 5000) + "\r\nContent-Length: 10\r\n\r\n",
		"no token": "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\n",
		"half":     "POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\nAccept: application/json, text/event-stream\r\nContent-Type: application/json\r\nContent-Length: 10\r\n\r\n{",
		"of a GET": "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\nAccept: text/event-stream\r\nMcp-Session-Id: x\r\nContent-Length: 10\r\n\r\n",
	} {
		for _, closing := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, closing %v", name, closing), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := serveWeb(t, newFake(tool("a", "b")), Options{}, HTTPOptions{Tokens: tokens("x")})
					conn, err := w.dial(t.Context(), "", "")
					expect.OK(t, err)
					defer conn.Close()
					answered := make(chan struct{})
					go func() {
						defer close(answered)
						io.ReadAtLeast(conn, make([]byte, 4096), len("HTTP/1.1 400"))
						io.Copy(io.Discard, conn)
					}()
					io.WriteString(conn, head)
					synctest.Wait()
					began := time.Now()
					if closing {
						ctx, cancel := context.WithTimeout(t.Context(), time.Second)
						defer cancel()
						w.handler.Close(ctx)
						if took := time.Since(began); took > 10*time.Second {
							t.Errorf("Close took %v", took)
						}
						conn.Close()
					}
					<-answered
					if took := time.Since(began); took > readTimeout+10*time.Second {
						t.Errorf("the connection was held for %v", took)
					}
				})
			})
		}
	}
}

// A client that does not read must not hold up servers, or the end.
func TestUnreadNotifications(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFake(tool("a", "b"))
		in, inW := io.Pipe()
		outR, out := io.Pipe()
		ctx, cancel := context.WithCancel(t.Context())
		s := newAlone(r, Options{Mode: exposure.Direct})
		ran, served := make(chan error, 1), make(chan error, 1)
		go func() { ran <- s.Run(ctx) }()
		go func() { served <- s.Serve(ctx, nil, in, out) }()
		fmt.Fprintln(inW, initializing)
		outR.Read(make([]byte, 4096))
		fmt.Fprintln(inW, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		synctest.Wait()
		for range maxQueued + 10 { // on the goroutine that reads from the server
			r.say("a", nil, session.Message{Method: "notifications/message", Params: json.RawMessage(`{"level":"alert"}`)})
		}
		r.replace("a", tool("a", "c"))
		time.Sleep(time.Second)
		cancel()
		expect.OK(t, <-ran)
		if err := <-served; err == nil {
			t.Error("Serve says nothing of it")
		}
		outR.Close()
	})
}

// What one principal has is none of another's business.
func TestPrincipals(t *testing.T) {
	r := newFake(tool("s", "long"))
	r.offer("s", registry.Offer{Tools: []registry.NormalizedTool{tool("s", "long")}, Extensions: json.RawMessage(`{"io.modelcontextprotocol/tasks":{}}`)})
	r.execute = answering(`{"resultType":"task","taskId":"1","status":"working"}`)
	r.relay = func(_ context.Context, _ string, q session.Request) (json.RawMessage, error) {
		return fmt.Appendf(nil, `{"asked":%s}`, q.Params), nil
	}
	w := serveWeb(t, r, Options{Mode: exposure.Direct}, HTTPOptions{Tokens: tokens("one", "two"), MaxSessions: 2})
	one, two := []string{"Authorization", "Bearer one"}, []string{"Authorization", "Bearer two"}

	_, answer := w.text(http.MethodPost, "/mcp", rpc("tools/call", `"name":"s__long",`+modernMeta), append(modernHeaders("tools/call", "s__long"), one...)...)
	_, id, _ := strings.Cut(answer, `"taskId":"`)
	id, _, ok := strings.Cut(id, `"`)
	if !ok {
		t.Fatalf("no task: %s", answer)
	}
	mine, theirs := w.session(one...), w.session(two...)
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel", "tasks/result", "tasks/list"} {
		relayed := method != "tasks/result" && method != "tasks/list" // which are not of the extension
		for _, guess := range []string{id, "s/1", "1", strings.Replace(id, "s:", "s:x", 1)} {
			params := `"taskId":"` + guess + `"`
			for who, how := range map[string]struct {
				header []string
				meta   string
				owner  bool
			}{
				"the task's owner":           {append(modernHeaders(method, guess), one...), "," + modernMeta, true},
				"someone else":               {append(modernHeaders(method, guess), two...), "," + modernMeta, false},
				"the owner, in 2025":         {mine, "", false}, // whose tasks are others
				"someone else, in 2025":      {theirs, "", false},
				"someone else, as plain RPC": {two, "", false},
			} {
				_, answer := w.text(http.MethodPost, "/mcp", rpc(method, params+how.meta), how.header...)
				passed := strings.Contains(answer, `"asked":{"taskId":"1"}`)
				if want := how.owner && guess == id && relayed; passed != want || !passed && !strings.Contains(answer, `"error"`) {
					t.Errorf("%s, %s of %q: %s", who, method, guess, answer)
				}
			}
		}
	}

	r.say("s", nil, session.Message{Method: "notifications/message", Params: json.RawMessage(`{"level":"alert","data":"secret"}`)})
	stream := reading(t, w.get(theirs))
	defer stream.body.Close()
	r.say("s", nil, session.Message{Method: "notifications/tools/list_changed"})
	stream.want("0_1", `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"`)

	w.session(one...) // in the place of an own one
	w.gets("the principal's own idle session", http.StatusNotFound, "", http.MethodPost, "/mcp", rpc("ping", ""), mine...)
	w.gets("another principal's session", http.StatusOK, "", http.MethodPost, "/mcp", rpc("ping", ""), theirs...)
}

// Ids, subscriptions and parked requests are bounded.
func TestBounds(t *testing.T) {
	r := offering()
	c := connect(t, r, Options{Mode: exposure.Direct})
	long := strings.Repeat("x", maxID)
	c.wantPrefix(`{"jsonrpc":"2.0","id":"`+long+`","method":"ping"}`, `{"jsonrpc":"2.0","id":"`+long+`","error":{"code":-32600,`)
	c.wantPrefix(`{"jsonrpc":"2.0","id":2,"method":"subscriptions/listen","params":{"notifications":{"resourceSubscriptions":["x:a","x:a","x:none"]},`+modernMeta+`}}`,
		`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{"resourceSubscriptions":["x:a","x:none"]}`)
	for range 2 { // told once each
		r.say("a", nil, session.Message{Method: "notifications/resources/updated", Params: json.RawMessage(`{"uri":"x:a"}`)})
		expect.Contains(t, c.receive(), "resources/updated", "heard")
	}
	c.want(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}
{"jsonrpc":"2.0","id":3,"method":"ping","params":{}}`, `{"jsonrpc":"2.0","id":3,"result":{}}`)
}

// A request that is cancelled just when its question is put to the client is not
// left behind, parked.
func TestCancelledWhileParking(t *testing.T) {
	r := newFake(tool("a", "b"))
	ended := r.asking("roots/list")
	s := newAlone(r, Options{Mode: exposure.Direct})
	for range 200 {
		in, inW := io.Pipe()
		served := make(chan error, 1)
		go func() { served <- s.Serve(t.Context(), nil, in, io.Discard) }()
		fmt.Fprintln(inW, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__b",`+askingMeta+`}}`)
		fmt.Fprintln(inW, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
		inW.Close()
		<-served
		select {
		case err := <-ended:
			if err == nil {
				t.Fatal("the call was answered")
			}
		default: // it was cancelled before it began
		}
		if left := s.clients.Suspended(); left > 0 {
			t.Fatal("a request was left behind, suspended")
		}
	}
}

// What a client sends reaches servers as UTF-8 only: strict servers end at anything else.
func TestClientNotUTF8(t *testing.T) {
	r := newFake(tool("a", "b"))
	var got []string
	r.execute = func(_ context.Context, c selector.Call) (selector.Result, error) {
		got = append(got, string(c.Arguments))
		return selector.Result{JSON: json.RawMessage(`{"content":[]}`)}, nil
	}
	c := initialized(t, r, Options{Mode: exposure.Direct})
	call := func(id, argument string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"method":"tools/call","params":{"name":"a__b","arguments":{"x":"` + argument + `"}}}`
	}
	c.want(call("7", "caf\xe9"), `{"jsonrpc":"2.0","id":7,"error":{"code":-32700,"message":"the message is not UTF-8"}}`)
	c.want(call("\"\xff\"", "x"), `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"the message is not UTF-8"}}`)
	c.want(call("8", `é \ud83e\udd89 \ud800 \\ud800`), `{"jsonrpc":"2.0","id":8,"result":{"content":[]}}`)
	if len(got) != 1 || got[0] != `{"x":"é \ud83e\udd89 \ufffd \\ud800"}` {
		t.Errorf("executed with %q", got)
	}
}

// A server whose question a client answers with other bytes, or too deep, does not wait for a better answer.
func TestClientAnswersFaulty(t *testing.T) {
	deep := strings.Repeat("[", wire.MaxLevels) + strings.Repeat("]", wire.MaxLevels)
	for content, want := range map[string]string{
		"\"caf\xe9\"": `{"code":-32700,"message":"the message is not UTF-8"}`,
		deep:          `{"code":-32600,"message":"the message is nested deeper than 100 levels"}`,
	} {
		r := newFake(tool("a", "b"))
		ended := r.asking("elicitation/create")
		c := connect(t, r, Options{Mode: exposure.Direct})
		c.wantPrefix(strings.Replace(initializing, `"capabilities":{}`, `"capabilities":{"elicitation":{}}`, 1), `{"jsonrpc":"2.0","id":"init","result":{`)
		c.ask(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a__b"}}`)
		c.receive()
		c.want(`{"jsonrpc":"2.0","id":1,"result":{"action":"accept","content":{"x":`+content+`}}}`, `{"jsonrpc":"2.0","id":1,"error":`+want+`}`)
		<-ended
	}
}

// What a client sends is nested no deeper than servers' parsers go, which would not answer.
func TestClientTooDeep(t *testing.T) {
	r := newFake(tool("a", "b"))
	deepest := 0
	r.execute = func(_ context.Context, c selector.Call) (selector.Result, error) {
		levels, _ := wire.Levels(c.Arguments)
		deepest = max(deepest, levels)
		return selector.Result{JSON: json.RawMessage(`{"content":[]}`)}, nil
	}
	w := serveWeb(t, r, Options{Mode: exposure.Direct}, HTTPOptions{})
	c := initialized(t, r, Options{Mode: exposure.Direct})
	for levels, want := range map[int]string{wire.MaxLevels - 2: `"content":[]`, 5000: "the message is nested deeper than 100 levels"} {
		params := `"name":"a__b","arguments":{"x":` + strings.Repeat("[", levels) + strings.Repeat("]", levels) + `}`
		_, answer := w.text(http.MethodPost, "/mcp", rpc("tools/call", params))
		expect.Contains(t, answer, want, "HTTP, %d levels", levels)
		c.send(rpc("tools/call", params))
		expect.Contains(t, c.receive(), want, "stdio, %d levels", levels)
	}
	if deepest > wire.MaxLevels {
		t.Errorf("a server got %d levels", deepest)
	}
}
