//go:build linux

package hostile

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

// connections attack the HTTP server.
var connections = map[string]guest{
	"8,000 connections with announced bodies": {attack: func(v *visit) {
		n := 8000
		var open []net.Conn
		for range n {
			c, err := net.Dial("tcp", v.address)
			if err != nil {
				break // the limit of this process
			}
			open = append(open, c)
			fmt.Fprintf(c, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{")
		}
		v.rest()
		for _, c := range open {
			c.Close()
		}
	}},
	"connections that are silent": {attack: func(v *visit) {
		var open []net.Conn
		for range v.number(3000) {
			if c := v.connect(); c != nil {
				open = append(open, c)
			}
		}
		v.rest()
		closeAll(open)
	}},
	"headers a byte at a time": {attack: slowly("GET /health HTTP/1.1\r\nHost: localhost\r\nX-A: ")},
	"body a byte at a time":    {attack: slowly("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n{\"jsonrpc\":\"2.0\",\"x\":\"")},
	"chunks a byte at a time":  {attack: slowly("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n1;x=")},
	"body of 1 GB announced": {attack: func(v *visit) {
		v.repeat(4, func(int) {
			if got := statuses(v.raw("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000000000\r\n\r\n{")); len(got) == 0 || got[0] != "413" {
				v.t.Errorf("the statuses are %v, want 413", got)
			}
		})
	}},
	"body without an end": {attack: func(v *visit) {
		v.repeat(2, func(int) {
			v.refused(v.request("POST", "/mcp", nil, io.LimitReader(endlessReader('x'), 64<<20)), 400, 413, 0)
		})
	}},
	"bodies of 16 MB at once": {attack: func(v *visit) {
		body := rpc(1, "tools/call", `{"name":"honest:unknown","arguments":{"message":"`+strings.Repeat("x", 15<<20)+`"}}`)
		v.repeat(8, func(int) { v.refused(v.post(body), 200, 503, 0) })
	}},
	"body compressed as a bomb": {attack: func(v *visit) {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		z.Write(bytes.Repeat([]byte(" "), 64<<20))
		z.Close()
		v.repeat(2, func(int) {
			v.refused(v.request("POST", "/mcp", map[string]string{"Content-Encoding": "gzip"}, bytes.NewReader(b.Bytes())), 400, 415)
		})
	}},
	"announced continuation": {attack: func(v *visit) {
		v.hold(500, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Type: application/json\r\nContent-Length: 16000000\r\n\r\n")
	}},
	"headers of 2 MB": {attack: func(v *visit) {
		v.repeat(4, func(int) {
			v.refused(v.request("POST", "/mcp", map[string]string{"X-Big": strings.Repeat("x", 2<<20)}, strings.NewReader("{}")), 431, 0)
		})
	}},
	"headers by the thousand": {attack: func(v *visit) {
		v.repeat(4, func(int) {
			got := statuses(v.raw("GET /health HTTP/1.1\r\nHost: localhost\r\n" + series(20_000, "X-%d: x\r\n") + "\r\n"))
			if len(got) == 0 || got[0] != "431" {
				v.t.Errorf("the statuses are %v, want 431", got)
			}
		})
	}},
	"URL of 1 MB": {attack: func(v *visit) {
		v.repeat(4, func(int) {
			v.refused(v.request("GET", "/mcp/"+strings.Repeat("a/", 500_000), nil, nil), 431, 414, 404, 0)
			v.refused(v.request("GET", "/health?"+strings.Repeat("a=b&", 250_000), nil, nil), 431, 414, 404, 0)
		})
	}},
	"requests piled up in a connection": {attack: func(v *visit) {
		v.repeat(2, func(int) {
			c := v.connect()
			if c == nil {
				return
			}
			defer c.Close()
			one := "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 46\r\n\r\n" + `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`
			go io.WriteString(c, strings.Repeat(one, 10_000)) // answers are not read
			v.rest()
		})
	}},
	"answers that are not read": {attack: func(v *visit) {
		var open []net.Conn
		body := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"honest:echo","arguments":{"message":"` + strings.Repeat("x", 1<<20) + `"}}}`
		for range 30 {
			if c := v.connect(); c != nil {
				c.(*net.TCPConn).SetReadBuffer(4096)
				open = append(open, c)
				go fmt.Fprintf(c, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			}
		}
		v.rest()
		closeAll(open)
	}},
	"streams that are not read": {attack: func(v *visit) {
		c := v.router.client(`{}`)
		var open []net.Conn
		for range v.number(500) {
			if conn := v.connect(); conn != nil {
				open = append(open, conn)
				fmt.Fprintf(conn, "GET /mcp HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\nMcp-Session-Id: %s\r\nMCP-Protocol-Version: 2025-11-25\r\n\r\n", c.Session())
			}
		}
		v.rest()
		closeAll(open)
		v.leave(c)
	}},
	"another protocol": {attack: func(v *visit) {
		for _, noise := range []string{
			"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00",
			"SSH-2.0-OpenSSH\r\n", "\x00\x00\x00\x00", strings.Repeat("\xff", 100_000), "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n",
			"EHLO x\r\nMAIL FROM:<x>\r\n", "*1\r\n$4\r\nPING\r\n", strings.Repeat("\r\n", 50_000),
		} {
			for _, status := range statuses(v.raw(noise)) {
				if status[0] == '2' {
					v.t.Errorf("%.30q: status %s", noise, status)
				}
			}
		}
	}},
	"methods of HTTP": {attack: func(v *visit) {
		for _, method := range []string{"HEAD", "OPTIONS", "TRACE", "CONNECT", "PUT", "PATCH", "PROPFIND", strings.Repeat("X", 1000)} {
			for _, path := range []string{"/mcp", "/", "/health", "/mcp/tools/call", "/dashboard/call", "/metrics"} {
				if r := v.request(method, path, map[string]string{"X-Secret": "reflected"}, nil); strings.Contains(r.body, "reflected") || r.status >= 500 {
					v.t.Errorf("%s %s: %d %.200q", method, path, r.status, r.body)
				}
			}
		}
	}},
	"upgrade to a web socket": {attack: func(v *visit) {
		v.repeat(2, func(int) {
			v.refused(v.request("GET", "/mcp", map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version": "13"}, nil), 400, 404, 405, 406)
			v.refused(v.request("POST", "/mcp", map[string]string{"Connection": "Upgrade, HTTP2-Settings", "Upgrade": "h2c", "HTTP2-Settings": "AAMAAABkAARAAAAAAAIAAAAA"}, strings.NewReader(rpc(1, "ping", "{}"))), 200, 400)
		})
	}},
	"smuggled requests": {attack: smuggle},
	"metrics and pages by the thousand": {attack: func(v *visit) {
		v.repeat(8, func(i int) {
			path := []string{"/metrics", "/health", "/", "/v1/mesh_scan", "/dashboard/tools?q=echo", "/schema.json"}[i%6]
			v.refused(v.request("GET", path, nil, nil), 200)
		})
	}},
	"events of the page by the hundred": {attack: func(v *visit) {
		v.hold(1000, "GET /dashboard/events HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n\r\n")
	}},
}

// hold sends the request on n connections and keeps them open for the time of the case.
func (v *visit) hold(n int, request string) {
	var open []net.Conn
	for range v.number(n) {
		if c := v.connect(); c != nil {
			open = append(open, c)
			fmt.Fprint(c, request)
		}
	}
	v.rest()
	closeAll(open)
}

func closeAll(open []net.Conn) {
	for _, c := range open {
		c.Close()
	}
}

// slowly sends the beginning of a request by many connections, and then a byte now and then.
func slowly(beginning string) func(*visit) {
	return func(v *visit) {
		var open []net.Conn
		for range v.number(2000) {
			if c := v.connect(); c != nil {
				open = append(open, c)
				io.WriteString(c, beginning)
			}
		}
		for v.ctx.Err() == nil {
			for _, c := range open {
				io.WriteString(c, "x")
			}
			time.Sleep(50 * time.Millisecond)
		}
		closeAll(open)
	}
}

type endlessReader byte

func (e endlessReader) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(e)
	}
	return len(p), nil
}

// smuggle sends requests whose end two parsers see at different places. The router must answer
// with an error and close the connection, or answer the request as one.
func smuggle(v *visit) {
	const hidden = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
	body := rpc(1, "ping", "{}")
	for name, head := range map[string]string{
		"both lengths":             fmt.Sprintf("Content-Length: %d\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", len(body)),
		"two lengths":              fmt.Sprintf("Content-Length: 0\r\nContent-Length: %d\r\n\r\n%s", len(body), body),
		"list of lengths":          "Content-Length: 0, 5\r\n\r\n",
		"negative length":          "Content-Length: -1\r\n\r\n",
		"length with a sign":       "Content-Length: +5\r\n\r\nxxxxx",
		"huge length":              "Content-Length: 99999999999999999999999\r\n\r\n",
		"encoding misspelt":        "Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
		"encoding twice":           "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n0\r\n\r\n",
		"encoding with a tab":      "Transfer-Encoding:\tchunked\x0b\r\n\r\n0\r\n\r\n",
		"space before the colon":   "Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
		"folded header":            "X: a\r\n Transfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n",
		"NUL in a header":          "X: a\x00b\r\nContent-Length: 0\r\n\r\n",
		"chunk size beyond 64 bit": "Transfer-Encoding: chunked\r\n\r\n10000000000000000\r\nx",
		"chunk extension of 1 MB":  "Transfer-Encoding: chunked\r\n\r\n1;" + strings.Repeat("x", 1<<20) + "\r\nx\r\n0\r\n\r\n",
		"bare line feed in chunks": "Transfer-Encoding: chunked\r\n\r\n1\nx\n0\n\n",
	} {
		got := statuses(v.raw("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n" + head + hidden))
		// A second answer is the hidden request's, which net/http rightly reads after a chunked
		// body, although RFC 9112 would have it close the connection if there is a length too.
		if len(got) == 0 || !slices.Contains([]string{"200", "400", "413", "501"}, got[0]) {
			v.t.Errorf("%s: the statuses are %v", name, got)
		}
	}
	if r := v.request("GET", "/health", map[string]string{"Host": "localhost", "X-HTTP-Method-Override": "DELETE"}, nil); r.status != http.StatusOK {
		v.t.Errorf("method override: %d", r.status)
	}
}
