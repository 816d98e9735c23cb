package server

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
)

// batches opens a session of the revision that has batches, and returns the header of its requests.
func (w *web) batches(header ...string) []string {
	w.t.Helper()
	response := w.do(http.MethodPost, "/mcp", openedAs("2025-03-26"), append(slices.Clone(both), header...)...)
	response.Body.Close()
	return append([]string{"Accept", both[1], "Mcp-Session-Id", response.Header.Get("Mcp-Session-Id")}, header...)
}

// batchOf returns a batch of n calls with different ids.
func batchOf(n int) string {
	var all []string
	for i := range n {
		all = append(all, strings.Replace(legacyCall, `"id":1`, fmt.Sprintf(`"id":%d`, i), 1))
	}
	return "[" + strings.Join(all, ",") + "]"
}

// Plain JSON-RPC has no batches.
func TestPlainBatch(t *testing.T) {
	w := serveWeb(t, newFake(tool("a", "b")), Options{Mode: exposure.Direct}, HTTPOptions{})
	for _, body := range []string{`[{"id":1,"method":"ping"}]`, ` [ ] `, `[1,"x",[]]`, `[` + strings.Repeat(`1,`, 1_000_000) + `1]`} {
		status, answer := w.text(http.MethodPost, "/mcp", body)
		if want := `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"only sessions of 2025-03-26 have batches: send each message by itself"}}`; status != 200 || strings.TrimSpace(answer) != want {
			t.Errorf("%.30s: %d %s", body, status, answer)
		}
	}
}

// Requests of a batch are carried out together, but not all at once.
func TestBatchWidth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int32
		r := scripted(func(context.Context, selector.Call) {
			for n := now.Add(1); ; {
				if m := most.Load(); n <= m || most.CompareAndSwap(m, n) {
					break
				}
			}
			time.Sleep(time.Minute)
			now.Add(-1)
		})
		w := serveWeb(t, r, Options{Mode: exposure.Direct}, HTTPOptions{})
		began, header := time.Now(), w.batches()
		status, answer := w.text(http.MethodPost, "/mcp", batchOf(100), header...)
		if status != 200 || strings.Count(answer, `"result":`) != 100 {
			t.Errorf("%d %.200s", status, answer)
		}
		if most.Load() != batchWidth || time.Since(began) != 7*time.Minute {
			t.Errorf("%d at once, %v", most.Load(), time.Since(began))
		}
	})
}

// What a batch holds of answers is bounded.
func TestBatchOfLongAnswers(t *testing.T) {
	long := selector.Result{JSON: []byte(`{"content":[],"long":"` + strings.Repeat("x", maxAnswers*2/3) + `"}`)}
	var ran atomic.Int32
	r := newFake(tool("a", "b"))
	r.execute = func(context.Context, selector.Call) (selector.Result, error) {
		if ran.Add(1) <= 2 {
			return long, nil
		}
		return selector.Result{JSON: json.RawMessage(`{"content":[]}`)}, nil
	}
	w := serveWeb(t, r, Options{Mode: exposure.Direct}, HTTPOptions{})
	status, answer := w.text(http.MethodPost, "/mcp", batchOf(batchWidth+10), w.batches()...)
	if status != 200 || len(answer) > maxAnswers {
		t.Fatalf("%d, %d bytes", status, len(answer))
	}
	answer = answer[strings.LastIndex(answer, "data: ")+1:]
	if said, left := strings.Count(answer, `"result":`), strings.Count(answer, "left out"); said != batchWidth+9 || left != 1 {
		t.Errorf("%d results, %d left out", said, left)
	}
}

// A batch that was let in is carried out to its end by a handler that closes.
func TestBatchWhileClosing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := scripted(func(context.Context, selector.Call) { time.Sleep(time.Second) })
		w := serveWeb(t, r, Options{Mode: exposure.Direct}, HTTPOptions{})
		header := w.batches()
		go func() {
			time.Sleep(500 * time.Millisecond)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			w.handler.Close(ctx)
		}()
		status, answer := w.text(http.MethodPost, "/mcp", batchOf(100), header...)
		if n := strings.Count(answer, `"result":`); status != 200 || n != 100 {
			t.Errorf("%d, %d results: %.300s", status, n, answer)
		}
	})
}

func openedAs(version string) string { return strings.ReplaceAll(initializing, "2025-11-25", version) }

// Over stdio, a batch is a line, and so are its answers.
func TestBatchOverStdio(t *testing.T) {
	const version = conversation.WithBatches
	r := newFake(tool("a", "b"))
	r.asking("sampling/createMessage")
	c := connect(t, r, Options{Mode: exposure.Direct})
	refused := `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`
	c.wantPrefix(`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, refused)
	c.wantPrefix(strings.Replace(openedAs(version), `"capabilities":{}`, `"capabilities":{"sampling":{}}`, 1), `{"jsonrpc":"2.0","id":"init","result":{"protocolVersion":"`+version)
	c.want(`[{"jsonrpc":"2.0","method":"notifications/initialized"},{"jsonrpc":"2.0","id":1,"method":"ping"},{"jsonrpc":"2.0","id":1,"method":"ping"},7,{"jsonrpc":"2.0","id":"x","method":"no/such"}]`,
		`[{"jsonrpc":"2.0","id":1,"result":{}},{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the id of the request is in use"}},{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"invalid JSON at byte 0: not an object"}},{"jsonrpc":"2.0","id":"x","error":{"code":-32601,"message":"method not found: no/such"}}]`)
	c.wantPrefix(`[]`, refused)
	c.wantPrefix(`[{"jsonrpc":"2.0","id":1,"method":"ping"}`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,`)
	c.wantPrefix("["+strings.Repeat(`{},`, maxBatch)+"{}]", refused)
	c.wantPrefix("["+openedAs(version)+"]", `[{"jsonrpc":"2.0","id":"init","error":{"code":-32600,"message":"initialize must not be part of a batch"}}]`)
	c.wantPrefix(`[{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{`+modernMeta+`}}]`, `[{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"2026-07-28 has no batches`)
	c.wantPrefix(`[`+legacyCall+`]`, `{"jsonrpc":"2.0","method":"notifications/progress"`)
	if asked := c.receive(); !strings.HasPrefix(asked, `{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage"`) {
		t.Errorf("asked %s", asked)
	}
	c.wantPrefix(`[{"jsonrpc":"2.0","id":1,"result":{"ok":1}},{"jsonrpc":"2.0","method":"x"}]`, `[{"jsonrpc":"2.0","id":1,"result":{"content":[],"told":"{\"ok\":1}"`)
	// One that is cancelled has no answer, and nothing is an answer to nothing.
	c.wantPrefix(`[`+legacyCall+`]`, `{"jsonrpc":"2.0","method":"notifications/progress"`)
	c.receive()
	c.send(`[{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}]`)
	for got := ""; got != `{"jsonrpc":"2.0","id":9,"result":{}}`; {
		if got = c.ask(`{"jsonrpc":"2.0","id":9,"method":"ping"}`); strings.Contains(got, `"method":"notifications/cancelled"`) {
			got = c.receive()
		}
	}
	for _, version := range []string{"2024-11-05", "2025-06-18", "2025-11-25"} {
		c := connect(t, newFake(), Options{Mode: exposure.Direct})
		c.wantPrefix(openedAs(version), `{"jsonrpc":"2.0","id":"init","result":`)
		c.wantPrefix(`[{"jsonrpc":"2.0","id":1,"method":"ping"}]`, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"`+version+` has no batches`)
	}
}

// Over HTTP, a batch belongs to a session, which says whether there are batches.
func TestBatchInSession(t *testing.T) {
	synctest.Test(t, batchesInSession) // time is faked, so that no answer is a slow one
}

func batchesInSession(t *testing.T) {
	r := scripted(func(_ context.Context, c selector.Call) {
		if string(c.Arguments) == `{"n":1}` {
			c.From.Notify("a", session.Message{Method: "notifications/progress", Params: json.RawMessage(`{"progressToken":"t"}`)})
		}
	})
	w := serveWeb(t, r, Options{Mode: exposure.Direct}, HTTPOptions{})
	open := func(version string) []string {
		response := w.do(http.MethodPost, "/mcp", openedAs(version), both...)
		response.Body.Close()
		return append(both, "Mcp-Session-Id", response.Header.Get("Mcp-Session-Id"))
	}
	old := open("2025-03-26")
	calls := `[` + legacyCall + `,` + strings.Replace(legacyCall, `"id":1`, `"id":2`, 1) + `,{"jsonrpc":"2.0","id":3,"method":"no/such"}]`
	for name, test := range map[string]struct {
		body   string
		header []string
		status int
		want   string
	}{
		"calls":            {calls, old, 200, `[` + result + `}},{"jsonrpc":"2.0","id":2,"result":{"content":[]}},{"jsonrpc":"2.0","id":3,"error":{"code":-32601,`},
		"of 2024-11-05":    {calls, open("2024-11-05"), 400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"2024-11-05 has no batches`},
		"invalid":          {`[1]`, old, 200, `[{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`},
		"notifications":    {`[{"jsonrpc":"2.0","method":"notifications/initialized"}]`, old, 202, ``},
		"initialize":       {`[` + openedAs("2025-03-26") + `]`, old, 200, `[{"jsonrpc":"2.0","id":"init","error":{"code":-32600,`},
		"empty":            {`[]`, old, 400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`},
		"no JSON":          {`[{`, old, 400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,`},
		"too many":         {`[` + strings.Repeat("{},", maxBatch) + `{}]`, old, 400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`},
		"of 2025-06-18":    {calls, open("2025-06-18"), 400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"2025-06-18 has no batches`},
		"of 2025-11-25":    {calls, open("2025-11-25"), 400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"2025-11-25 has no batches`},
		"modern":           {`[` + modernCall + `]`, modernHeaders("tools/call", "a__b"), 400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`},
		"no session":       {calls, both, 400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`},
		"unknown session":  {calls, append(both, "Mcp-Session-Id", "x"), 404, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,`},
		"modern in legacy": {`[` + modernCall + `]`, old, 200, `[{"jsonrpc":"2.0","id":1,"error":{"code":-32600,"message":"2026-07-28 has no batches`},
	} {
		if status, answer := w.text(http.MethodPost, "/mcp", test.body, test.header...); status != test.status || !strings.HasPrefix(answer, test.want) {
			t.Errorf("%s: %d %s\nwant %d %s…", name, status, answer, test.status, test.want)
		}
	}
	noisy := strings.Replace(calls, `"name":"a__b"`, `"name":"a__b","arguments":{"n":1}`, 1)
	stream := reading(t, w.post(noisy, open("2025-03-26")))
	stream.want("1_1", `{"jsonrpc":"2.0","method":"notifications/progress"`)
	stream.want("1_2", `[`+result)
	stream.end()
}
