package server

import (
	"io"
	"net/http"
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
		w := serveWeb(t, newFake(tool("a", "b")), Options{Mode: exposure.Direct}, HTTPOptions{Rate: 0.5, Burst: 3, Tokens: tokens("one", "two", "three")})
		batches := w.batches(bearer("three")...)
		const single = `{"jsonrpc":"2.0","id":1,"method":"ping"}`
		batch := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat(single+",", n), ",") + "]" }
		const refused = `{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"too many requests`
		const tooLarge = `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"the batch has more than 3`
		for _, tt := range []struct {
			what       string
			after      time.Duration
			token      string
			path, body string
			status     int
			wait, said string
		}{
			{"the first", 0, "one", "/mcp", single, 200, "", ""},
			{"the second", 0, "one", "/mcp", single, 200, "", ""},
			{"the third", 0, "one", "/mcp", single, 200, "", ""},
			{"the fourth", 0, "one", "/mcp", single, 429, "2", refused},
			{"REST", 0, "one", "/mcp/ping", "", 429, "2", `{"error":{"code":-32603,"message":"too many requests`},
			{"REST, in the body", 0, "one", "/mcp/ping", "", 429, "2", `"retry_after":2`},
			{"mesh_scan", 0, "one", "/v1/mesh_scan", "", 429, "2", ""},
			{"health", 0, "", "/health", "", 200, "", ""},
			{"another's", 0, "two", "/mcp", single, 200, "", ""},
			{"after the wait", 2 * time.Second, "one", "/mcp", single, 200, "", ""},
			// Each message of a batch counts.
			{"a batch of 3", time.Minute, "three", "/mcp", batch(3), 200, "", ""},
			{"one more", 0, "three", "/mcp", batch(1), 429, "2", ""},
			// A batch that comes again when it was told to is let in, and one that never could be is not told to.
			{"a batch too early", 4 * time.Second, "three", "/mcp", batch(3), 429, "4", ""},
			{"a batch after the wait", 4 * time.Second, "three", "/mcp", batch(3), 200, "", ""},
			{"a batch larger than the burst", time.Minute, "three", "/mcp", batch(4), 400, "", tooLarge},
			// Guesses at tokens count for whoever makes them.
			{"a guess", time.Hour, "0", "/mcp", single, 401, "", ""},
			{"a second guess", 0, "1", "/mcp", single, 401, "", ""},
			{"a third guess", 0, "2", "/mcp", single, 401, "", ""},
			{"a fourth guess", 0, "3", "/mcp", single, 429, "2", ""},
			{"beside who guesses", 0, "two", "/mcp", single, 200, "", ""},
		} {
			time.Sleep(tt.after)
			method := http.MethodPost
			if tt.path == "/v1/mesh_scan" || tt.path == "/health" {
				method = http.MethodGet
			}
			header := bearer(tt.token)
			if tt.token == "three" {
				header = batches
			}
			response := w.do(method, tt.path, tt.body, header...)
			answer, err := io.ReadAll(response.Body)
			response.Body.Close()
			if wait := response.Header.Get("Retry-After"); err != nil || response.StatusCode != tt.status || wait != tt.wait || !strings.Contains(string(answer), tt.said) {
				t.Errorf("%s: %d, wait %q: %s", tt.what, response.StatusCode, wait, answer)
			}
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
		sessions := map[string][]string{"slow": w.batches(bearer("slow")...), "fast": w.batches(bearer("fast")...)}
		time.Sleep(time.Minute)
		for token, fits := range map[string]bool{"slow": false, "fast": true} {
			if _, answer := w.text(http.MethodPost, "/mcp", batch, sessions[token]...); strings.Contains(answer, "the batch has more than") == fits {
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
