package server

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Who asks too often is told when to come again, and is let in then.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := serveWeb(t, newFake(tool("a", "b")), Options{Mode: Direct}, HTTPOptions{Rate: 0.5, Burst: 3, Tokens: []string{"one", "two"}})
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

func TestThrottle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if none := newThrottle(0, 5); none != nil || none.take("x", 1000, 1000) != 0 {
			t.Error("no rate is a limit")
		}
		th := newThrottle(10, 0)
		if th.burst != 10 || th.take("x", 10, 10) != 0 {
			t.Error("a second's worth is not let in")
		}
		wait := th.take("x", 1, 1)
		if wait < 100*time.Millisecond || wait > 101*time.Millisecond {
			t.Errorf("wait %v", wait)
		}
		if th.take("x", 1000, 1000) < time.Second {
			t.Error("what can never be let in need not wait")
		}
		time.Sleep(wait)
		if th.take("x", 1, 1) != 0 || th.take("x", 1, 1) == 0 {
			t.Error("after the wait not one is let in")
		}
		if wait := newThrottle(1e-300, 1); wait.take("x", 1, 1) != 0 || wait.take("x", 1, 1) != longestWait {
			t.Error("next to no rate is one")
		}
		// Those who have gone are forgotten, and there are never too many.
		time.Sleep(2 * time.Second)
		th.take("y", 5, 5)
		if len(th.buckets) != 1 || th.order.Len() != 1 {
			t.Errorf("%d buckets", len(th.buckets))
		}
		for i := range 2 * maxBuckets {
			th.take(fmt.Sprint(i), 10, 10)
		}
		if len(th.buckets) != maxBuckets || th.order.Len() != maxBuckets {
			t.Errorf("%d buckets, %d in order", len(th.buckets), th.order.Len())
		}
		if th.take(fmt.Sprint(2*maxBuckets-1), 1, 1) == 0 {
			t.Error("the last one is forgotten")
		}
	})
}

func TestNetwork(t *testing.T) {
	for remote, want := range map[string]string{
		"192.0.2.1:80": "192.0.2.1", "[::ffff:192.0.2.1]:80": "192.0.2.1", "[2001:db8:1:2:3::4]:80": "2001:db8:1:2::/64",
		"[fe80::1%eth0]:80": "fe80::/64", "[::1]:80": "::/64", "pipe": "pipe", "name:80": "name",
	} {
		if got := network(remote); got != want {
			t.Errorf("%s: %s, want %s", remote, got, want)
		}
	}
}
