//go:build linux

package hostile

import (
	"encoding/json"
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
	"hosts of others": {attack: func(v *visit) {
		for _, host := range []string{"evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "evil.example:" + v.address[strings.LastIndex(v.address, ":")+1:], "[::ffff:8.8.8.8]", "0x7f000001.example", "localhost@evil.example", "169.254.169.254", strings.Repeat("a", 5000)} {
			for _, path := range []string{"/mcp", "/", "/health", "/metrics"} {
				v.refused(v.request("POST", path, map[string]string{"Host": host}, strings.NewReader(rpc(1, "tools/list", "{}"))), 403, 400, 431)
			}
		}
		for _, heads := range []string{"Host: localhost\r\nHost: evil.example\r\n", "", "Host: localhost, evil.example\r\n", "Host: \r\nX-Forwarded-Host: localhost\r\n"} {
			if got := statuses(v.raw("GET /metrics HTTP/1.1\r\n" + heads + "\r\n")); len(got) == 0 || got[0][0] == '2' {
				v.t.Errorf("%q: the statuses are %v", heads, got)
			}
		}
	}},
	"origins of others": {attack: func(v *visit) {
		for _, origin := range []string{"https://evil.example", "null", "file://", "https://localhost.evil.example", "http://127.0.0.1.evil.example", "chrome-extension://abc", "https://localhost@evil.example", "%", strings.Repeat("x", 5000)} {
			for _, path := range []string{"/mcp", "/mcp/tools/list", "/dashboard/call", "/dashboard/servers/honest/stop", "/metrics"} {
				v.refused(v.request("POST", path, map[string]string{"Origin": origin}, strings.NewReader(`{}`)), 403, 400, 431)
			}
		}
	}},
	"simple requests of web pages": {attack: func(v *visit) {
		for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"} {
			r := v.request("POST", "/mcp", map[string]string{"Content-Type": kind, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}, strings.NewReader(rpc(1, "tools/list", "{}")))
			v.refused(r, 400, 403, 415)
			v.refused(v.request("POST", "/dashboard/servers/honest/stop", map[string]string{"Content-Type": kind}, strings.NewReader("{}")), 400, 403, 415)
		}
	}},
	"storm of wrong tokens": {own: withTokens, attack: func(v *visit) {
		v.repeat(8, func(i int) {
			r := v.request("POST", "/mcp", map[string]string{"Authorization": fmt.Sprintf("Bearer %s%d", token, i)}, strings.NewReader(rpc(1, "tools/list", "{}")))
			v.refused(r, 401, 429)
		})
	}},
	"tokens of odd forms": {own: withTokens, attack: func(v *visit) {
		for _, value := range []string{"", "Bearer", "Bearer ", "bearer null", "Basic " + token, token, "Bearer " + token[:10], "Bearer " + token + "x", "Bearer " + strings.Repeat("x", 50_000), "Bearer " + token + "," + token} {
			for _, path := range []string{"/mcp", "/mcp/tools/list", "/metrics", "/v1/mesh_scan", "/dashboard/tools"} {
				v.refused(v.request("POST", path, map[string]string{"Authorization": value}, strings.NewReader(rpc(1, "tools/list", "{}"))), 401, 429, 431, 405)
				v.refused(v.request("POST", path+"?token="+token+"&access_token="+token, map[string]string{"Authorization": value, "Cookie": "token=" + token}, strings.NewReader("{}")), 401, 429, 431, 405)
			}
		}
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
	"login with a body of 10 MB": {own: withTokens, attack: func(v *visit) {
		v.refused(v.request("POST", "/login", map[string]string{"Content-Type": "application/x-www-form-urlencoded", "Accept": "text/html", "Authorization": ""},
			strings.NewReader("token="+strings.Repeat("%41", 3<<20))), 401, 413, 429, 400, 403, 0)
	}},
	"forged cookies": {own: withTokens, attack: func(v *visit) {
		port := v.address[strings.LastIndex(v.address, ":")+1:]
		for _, value := range []string{"", "x", strings.Repeat("0", 64), token, strings.Repeat("f", 50_000)} {
			for _, path := range []string{"/dashboard/tools", "/dashboard/events", "/metrics"} {
				v.refused(v.request("GET", path, map[string]string{"Authorization": "", "Cookie": "metarouter_login_" + port + "=" + value}, nil), 401, 431, 429)
			}
		}
	}},
	"guessing at sessions": {attack: func(v *visit) {
		v.repeat(8, func(i int) {
			id := []string{fmt.Sprint(i), strings.Repeat("A", 26), "../x", strings.Repeat("s", 10_000), "*", "null"}[i%6]
			v.refused(v.request("POST", "/mcp", map[string]string{"Accept": "application/json, text/event-stream", "Mcp-Session-Id": id, "MCP-Protocol-Version": "2025-11-25"}, strings.NewReader(rpc(1, "tools/list", "{}"))), 404, 400)
			v.refused(v.request("DELETE", "/mcp", map[string]string{"Mcp-Session-Id": id}, nil), 404, 400)
		})
	}},
	"sessions of another": {own: withTokens, attack: func(v *visit) {
		theirs := v.router.client(`{}`)
		as := map[string]string{"Authorization": "Bearer " + otherToken, "Accept": "application/json, text/event-stream", "Mcp-Session-Id": theirs.Session(), "MCP-Protocol-Version": "2025-11-25"}
		v.repeat(2, func(int) {
			v.refused(v.request("POST", "/mcp", as, strings.NewReader(rpc(1, "tools/list", "{}"))), 404)
			v.refused(v.request("GET", "/mcp", as, nil), 404)
			v.refused(v.request("DELETE", "/mcp", as, nil), 404)
		})
		if _, err := theirs.Call(within(v.t, deadline), "honest__echo", json.RawMessage(`{}`)); err != nil {
			v.t.Errorf("the session after another client's DELETE: %v", err)
		}
		v.leave(theirs)
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
	"streams resumed at wild events": {attack: func(v *visit) {
		c := v.router.client(`{}`)
		v.repeat(2, func(int) {
			for _, id := range []string{"0", "-1", "1", "1/1", "999999999999999999999", "x", "0_99999999", strings.Repeat("9", 10_000), "../0"} {
				v.brief("GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nMCP-Protocol-Version: 2025-11-25\r\nMcp-Session-Id: " + c.Session() + "\r\nLast-Event-ID: " + id + "\r\n\r\n")
			}
		})
		v.leave(c)
	}},
	"stopping servers of the page": {own: withTokens, attack: func(v *visit) {
		for _, path := range []string{"/dashboard/servers/honest/stop", "/dashboard/servers/honest/restart", "/dashboard/call"} {
			v.refused(v.request("POST", path, map[string]string{"Authorization": ""}, strings.NewReader(`{"tool":"honest:echo","arguments":{}}`)), 401, 403)
		}
	}},
	"names of no server": {attack: func(v *visit) {
		v.repeat(2, func(int) {
			for _, name := range []string{"..%2f..", "%00", strings.Repeat("x", 10_000), "honest%0a", "%1b%5b2J"} {
				v.refused(v.request("POST", "/dashboard/servers/"+name+"/restart", nil, strings.NewReader("{}")), 400, 403, 404, 405, 409, 415)
			}
		})
	}},
}

// brief sends a request whose answer may never end, and reads its beginning.
func (v *visit) brief(request string) {
	c := v.connect()
	if c == nil {
		return
	}
	defer c.Close()
	if _, err := c.Write([]byte(request)); err != nil {
		return
	}
	b := make([]byte, 1024)
	n, err := c.Read(b)
	if err == nil && !strings.HasPrefix(string(b[:n]), "HTTP/1.1 ") || strings.HasPrefix(string(b[:n]), "HTTP/1.1 5") {
		v.t.Errorf("%.200q: %.200q", request, b[:n])
	}
}
