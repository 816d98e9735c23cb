package server

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/rate"
)

// Who asks too often is told when to come again, and is let in then.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := serveWeb(t, newFake(tool("a", "b")), Options{Mode: exposure.Direct}, HTTPOptions{Rate: 0.5, Burst: 3, Tokens: tokens("one", "two")})
		one, two := []string{"Authorization", "Bearer one"}, []string{"Authorization", "Bearer two"}
		ping := func(path, body string, header []string) (status int, wait string) {
			t.Helper()
			response := w.do(http.MethodPost, path, body, header...)
			response.Body.Close()
			return response.StatusCode, response.Header.Get("Retry-After")
		}
		const single = `{"id":1,"method":"ping"}`
		for range 3 {
			if status, _ := ping("/mcp", single, one); status != 200 {
				t.Fatal(status)
			}
		}
		if status, wait := ping("/mcp/ping", ``, one); status != 429 || wait != "2" {
			t.Errorf("%d, wait %q", status, wait)
		}
		if status, answer := w.text(http.MethodPost, "/mcp", single, one...); status != 429 || !strings.HasPrefix(answer, `{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"too many requests`) {
			t.Errorf("%d %s", status, answer)
		}
		if status, answer := w.text(http.MethodPost, "/mcp/ping", ``, one...); status != 429 || !strings.HasPrefix(answer, `{"error":{"code":-32603,"message":"too many requests`) || !strings.Contains(answer, `"retry_after":2`) {
			t.Errorf("%d %s", status, answer)
		}
		if status, _ := w.text(http.MethodGet, "/v1/mesh_scan", ``, one...); status != 429 {
			t.Errorf("mesh_scan: %d", status)
		}
		if status, _ := w.text(http.MethodGet, "/health", ``); status != 200 {
			t.Errorf("health: %d", status)
		}
		if status, _ := ping("/mcp", single, two); status != 200 {
			t.Errorf("another's: %d", status)
		}
		time.Sleep(2 * time.Second)
		if status, _ := ping("/mcp", single, one); status != 200 {
			t.Errorf("after the wait: %d", status)
		}
		// Each message of a batch counts.
		time.Sleep(time.Hour)
		batch := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat(single+",", n), ",") + "]" }
		for _, test := range []struct{ n, status int }{{3, 200}, {1, 429}} {
			if status, wait := ping("/mcp", batch(test.n), one); status != test.status || (status == 429) != (wait != "") {
				t.Errorf("a batch of %d: %d, wait %q", test.n, status, wait)
			}
		}
		// A batch that comes again when it was told to is let in, and one that never
		// could be is not told to.
		time.Sleep(4 * time.Second)
		status, wait := ping("/mcp", batch(3), one)
		if status != 429 || wait != "4" {
			t.Errorf("a batch after another: %d, wait %q", status, wait)
		}
		time.Sleep(4 * time.Second)
		if status, wait := ping("/mcp", batch(3), one); status != 200 {
			t.Errorf("a batch after the wait: %d, wait %q", status, wait)
		}
		time.Sleep(time.Hour)
		if status, answer := w.text(http.MethodPost, "/mcp", batch(4), one...); status != 200 || !strings.HasPrefix(answer, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the batch has more than 3`) {
			t.Errorf("a batch larger than the burst: %d %s", status, answer)
		}
		time.Sleep(time.Hour)
		// Guesses at tokens count for whoever makes them.
		for i, status := range []int{401, 401, 401, 429} {
			if got, _ := ping("/mcp", single, []string{"Authorization", "Bearer " + strconv.Itoa(i)}); got != status {
				t.Errorf("guess %d: %d", i, got)
			}
		}
		if status, _ := ping("/mcp", single, two); status != 200 {
			t.Errorf("beside who guesses: %d", status)
		}
	})
}

// TestRateOfToken gives a token a rate of its own, lower or higher than that of all others, and
// edits it.
func TestRateOfToken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		known := tokens("slow", "fast", "other")
		all := HTTPOptions{Rate: 1, Burst: 2, Tokens: known, Rates: map[string]rate.Limit{
			known[0].Hash: {PerSecond: 0.1, Burst: 1}, known[1].Hash: {PerSecond: 10, Burst: 5},
		}}
		live, edit := editedHTTP(all)
		w := serveWeb(t, newFake(tool("a", "b")), Options{Mode: exposure.Direct}, live)
		count := func(token string) (served int, said string) {
			for served < 100 {
				status, answer := w.text(http.MethodPost, "/mcp/ping", ``, "Authorization", "Bearer "+token)
				if status != 200 {
					return served, answer
				}
				served++
			}
			return served, ""
		}
		for token, want := range map[string]int{"slow": 1, "fast": 5, "other": 2} {
			if got, said := count(token); got != want || strings.Contains(said, "with the token "+token) != (token != "other") {
				t.Errorf("%s: %d served, want %d: %s", token, got, want, said)
			}
		}
		if got, said := count("slow"); got != 0 || !strings.Contains(said, `"retry_after":10`) {
			t.Errorf("%d served: %s", got, said)
		}
		batch := "[" + strings.TrimSuffix(strings.Repeat(`{"id":1,"method":"ping"},`, 5), ",") + "]"
		time.Sleep(time.Minute)
		for token, fits := range map[string]bool{"slow": false, "fast": true} {
			if _, answer := w.text(http.MethodPost, "/mcp", batch, "Authorization", "Bearer "+token); strings.Contains(answer, "the batch has more than") == fits {
				t.Errorf("%s: a batch of 5: %s", token, answer)
			}
		}
		all.MaxBody = 1000
		edit(all) // goes on counting
		if got, _ := count("fast"); got != 0 {
			t.Errorf("%d served after an edit of another key", got)
		}
		all.Rates = nil
		edit(all)
		if got, _ := count("fast"); got != 2 {
			t.Errorf("%d served without a rate of its own", got)
		}
	})
}
