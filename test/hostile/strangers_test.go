//go:build linux

package hostile

import (
	"fmt"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
)

// strangers want what belongs to others.
var strangers = map[string]guest{
	"paths out of the folder": {attack: func(v *visit) {
		for _, path := range []string{
			"/mcp/../../../../etc/passwd", "/mcp/..%2f..%2f..%2fetc%2fpasswd", "/dashboard/page/../../../../etc/passwd", "/dashboard/page/..%2f..%2f..%2fgo.mod",
			"/dashboard/page/%2e%2e/%2e%2e/dashboard.go", "/dashboard/page//etc/passwd", "/mcp/%00", "/mcp/tools/call/../list", "//etc/passwd", "/mcp/tools%2fcall",
			"/dashboard/page/..\\..\\go.mod", "/%2e%2e/%2e%2e/etc/passwd", "/mcp/" + strings.Repeat("../", 500) + "etc/passwd", "/.git/config", "/debug/pprof/", "/debug/vars",
		} {
			answer := v.raw("GET " + path + " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
			if strings.Contains(answer, "root:") || strings.Contains(answer, "package dashboard") || strings.Contains(answer, "module github") || strings.Contains(answer, "goroutine profile") {
				v.t.Errorf("%s: %.300q", path, answer)
			}
			if got := statuses(answer); len(got) == 0 || got[0][0] == '2' || got[0][0] == '5' {
				v.t.Errorf("%s: the statuses are %v", path, got)
			}
		}
	}},
	"storm of wrong tokens": {own: withTokens, attack: func(v *visit) {
		v.repeat(8, func(i int) {
			r := v.request("POST", "/mcp", map[string]string{"Authorization": fmt.Sprintf("Bearer %s%d", token, i)}, strings.NewReader(rpc(1, "tools/list", "{}")))
			v.refused(r, 401, 429)
		})
	}},
	"guessing at the login": {own: withTokens, attack: func(v *visit) {
		var limited atomic.Bool
		v.repeat(4, func(i int) {
			r := v.request("POST", "/login", map[string]string{"Content-Type": "application/x-www-form-urlencoded", "Accept": "text/html", "Authorization": "", "Origin": "http://" + v.address},
				strings.NewReader(url.Values{"token": {fmt.Sprint("guess", i)}}.Encode()))
			v.refused(r, 401, 429)
			if r.status == 429 {
				limited.Store(true)
			}
			if i > 40 && !limited.Load() {
				v.t.Error("40 tries to log in within a minute, and none was refused")
			}
		})
	}},
	"guessing at sessions": {attack: func(v *visit) {
		v.repeat(8, func(i int) {
			id := []string{fmt.Sprint(i), strings.Repeat("A", 26), "../x", strings.Repeat("s", 10_000), "*", "null"}[i%6]
			v.refused(v.request("POST", "/mcp", map[string]string{"Accept": "application/json, text/event-stream", "Mcp-Session-Id": id, "MCP-Protocol-Version": "2025-11-25"}, strings.NewReader(rpc(1, "tools/list", "{}"))), 404, 400)
			v.refused(v.request("DELETE", "/mcp", map[string]string{"Mcp-Session-Id": id}, nil), 404, 400)
		})
	}},
	"sessions by the thousand": {attack: func(v *visit) {
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for range v.number(5000) / 8 {
					v.request("POST", "/mcp", map[string]string{"Accept": "application/json, text/event-stream"}, strings.NewReader(rpc(1, "initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"x","version":"1"}}`)))
				}
			})
		}
		all.Wait()
	}},
}
