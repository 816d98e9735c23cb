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
			w := &web{t: t, handler: h, client: server.Client()}
			send := func(method, path, body string, header ...string) *http.Response {
				t.Helper()
				q, err := http.NewRequestWithContext(t.Context(), method, server.URL+path, strings.NewReader(body))
				if err != nil {
					t.Fatal(err)
				}
				if method == http.MethodPost {
					q.Header.Set("Content-Type", "application/json")
				}
				for i := 0; i < len(header); i += 2 {
					q.Header.Set(header[i], header[i+1])
				}
				response, err := w.client.Do(q)
				if err != nil {
					t.Fatal(err)
				}
				if response.Proto != protocol {
					t.Fatalf("spoke %s", response.Proto)
				}
				return response
			}
			text := func(response *http.Response) string {
				defer response.Body.Close()
				all, err := io.ReadAll(response.Body)
				if err != nil {
					t.Error(err)
				}
				return strings.TrimSuffix(string(all), "\n")
			}
			if got := text(send("POST", "/mcp/ping", "")); got != `{"status":"ok"}` {
				t.Errorf("ping: %s", got)
			}
			if got := text(send("GET", "/v1/mesh_scan", "")); !strings.Contains(got, `"url":"https://127.0.0.1:`) {
				t.Errorf("mesh_scan: %s", got)
			}
			for origin, status := range map[string]int{"https://app.example.com": 200, "https://localhost:1": 200, "https://evil.example.com": 403} {
				if response := send("POST", "/mcp/ping", "", "Origin", origin); response.StatusCode != status {
					t.Errorf("%s: %d", origin, response.StatusCode)
				} else {
					text(response)
				}
			}
			opened := send("POST", "/mcp", initializing, both...)
			text(opened)
			header := append(both, "Mcp-Session-Id", opened.Header.Get("Mcp-Session-Id"), "Mcp-Protocol-Version", "2025-11-25")
			text(send("POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, header...))

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
			if got := text(send("POST", "/mcp", legacyCall)); !strings.Contains(got, large) {
				t.Errorf("got %d bytes", len(got))
			}
			if response := send("DELETE", "/mcp", "", header...); response.StatusCode != http.StatusNoContent {
				t.Errorf("DELETE: %d", response.StatusCode)
			}
			again.end()
			if response := send("GET", "/mcp", "x", header...); response.StatusCode != http.StatusBadRequest {
				t.Errorf("a GET with a body: %d", response.StatusCode)
			} else {
				text(response)
			}
		})
	}
}
