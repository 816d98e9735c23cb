package server

import (
	"context"
	"encoding/json"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/selector"
)

// Over TLS, with HTTP/1.1 and with HTTP/2, all is as it is without.
func TestTLS(t *testing.T) {
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		t.Run(protocol, func(t *testing.T) {
			going := make(chan struct{})
			r := scripted(func(ctx context.Context, c selector.Call) {
				c.From.Notify("a", session.Message{Method: "notifications/progress", Params: json.RawMessage(`{"progressToken":"t"}`)})
				select {
				case <-going:
				case <-ctx.Done():
				}
			})
			s := newAlone(r, Options{Mode: exposure.Direct})
			h := s.Handler(HTTPOptions{AllowedOrigins: []string{"https://app.example.com"}})
			ctx, end := context.WithCancel(t.Context())
			var running sync.WaitGroup
			running.Go(func() { s.Run(ctx) })
			server := httptest.NewUnstartedServer(h)
			server.Config.ErrorLog = log.New(io.Discard, "", 0)
			server.EnableHTTP2 = protocol == "HTTP/2.0"
			server.StartTLS()
			t.Cleanup(func() {
				h.Close(ctx)
				end()
				server.CloseClientConnections()
				server.Close()
				running.Wait()
			})
			w := &web{t: t, handler: h, client: server.Client(), base: server.URL}
			send := func(method, path, body string, header ...string) *http.Response {
				t.Helper()
				response := w.do(method, path, body, header...)
				if response.Proto != protocol {
					t.Fatalf("spoke %s", response.Proto)
				}
				return response
			}
			want := func(status int, part, method, path, body string, header ...string) {
				t.Helper()
				if got, answer := w.text(method, path, body, header...); got != status || !strings.Contains(answer, part) {
					t.Errorf("%s %s: %d %.500s", method, path, got, answer)
				}
			}
			want(200, `{"status":"ok"}`, "POST", "/mcp/ping", "")
			want(200, `"url":"https://127.0.0.1:`, "GET", "/v1/mesh_scan", "")
			for origin, status := range map[string]int{"https://app.example.com": 200, "https://localhost:1": 200, "https://evil.example.com": 403} {
				want(status, "", "POST", "/mcp/ping", "", "Origin", origin)
			}
			header := w.session()

			standing := reading(t, send("GET", "/mcp", "", header...))
			r.replace("c", tool("c", "d"))
			standing.want("0_1", `{"jsonrpc":"2.0","method":"notifications/tools/list_changed"`)
			again := reading(t, send("GET", "/mcp", "", header...)) // which takes the place of the other
			standing.end()

			call := reading(t, send("POST", "/mcp", legacyCall, header...))
			call.want("1_0", "")
			call.want("1_1", `{"jsonrpc":"2.0","method":"notifications/progress"`)
			close(going)
			call.want("1_2", result)
			call.end()

			// An answer that is larger than what is sent at once.
			large := strings.Repeat("x", 5<<20)
			r.execute = func(context.Context, selector.Call) (selector.Result, error) {
				return selector.Result{JSON: json.RawMessage(`{"content":[{"type":"text","text":"` + large + `"}]}`)}, nil
			}
			want(200, large, "POST", "/mcp", legacyCall)
			want(http.StatusNoContent, "", "DELETE", "/mcp", "", header...)
			again.end()
			want(http.StatusBadRequest, "", "GET", "/mcp", "x", header...)
		})
	}
}
