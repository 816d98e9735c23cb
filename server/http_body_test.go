package server

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// Clients that stall within a body lose their connections soon, and keep no one else's calls
// from being answered, even if they hold all memory for bodies.
func TestStalledBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := serveWeb(t, newFake(tool("a", "b")), Options{Mode: exposure.Direct}, HTTPOptions{MaxBodyMemory: 110_000})
		stalled := make(chan string, 2)
		for range 2 {
			conn, err := w.dial(t.Context(), "", "")
			expect.OK(t, err)
			defer conn.Close()
			io.WriteString(conn, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 60000\r\n\r\n"+strings.Repeat(" ", 33_000))
			go func() {
				began := time.Now()
				answer, _ := io.ReadAll(conn)
				head, _, _ := strings.Cut(string(answer), "\r\n")
				stalled <- head + " " + time.Since(began).String()
			}()
		}
		synctest.Wait()
		call := `{"id":1,"method":"tools/call","params":{"name":"a__b","arguments":{"n":"`
		for _, path := range []string{"/mcp", "/mcp/tools/call"} {
			large := w.do(http.MethodPost, path, call+strings.Repeat("x", 20_000)+`"}}}`)
			large.Body.Close()
			if large.StatusCode != http.StatusServiceUnavailable || large.Header.Get("Retry-After") == "" {
				t.Errorf("%s: %d %v", path, large.StatusCode, large.Header)
			}
			if status, answer := w.text(http.MethodPost, path, call+`"}}}`); status != 200 {
				t.Errorf("%s: a small call gets %d %s", path, status, answer)
			}
		}
		for range 2 {
			expect.Equal(t, <-stalled, "HTTP/1.1 408 Request Timeout 17.32434082s")
		}
		if status, answer := w.text(http.MethodPost, "/mcp", call+strings.Repeat("x", 20_000)+`"}}}`); status != 200 {
			t.Errorf("afterwards a large call gets %d %s", status, answer)
		}
	})
}
