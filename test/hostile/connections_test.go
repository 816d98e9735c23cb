//go:build linux

package hostile

import (
	"fmt"
	"io"
	"net"
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
	"body a byte at a time": {attack: slowly("POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n\r\n{\"jsonrpc\":\"2.0\",\"x\":\"")},
	"body without an end": {attack: func(v *visit) {
		v.repeat(2, func(int) {
			v.refused(v.request("POST", "/mcp", nil, io.LimitReader(endlessReader('x'), 64<<20)), 400, 413, 0)
		})
	}},
	"bodies of 16 MB at once": {attack: func(v *visit) {
		body := rpc(1, "tools/call", `{"name":"honest:unknown","arguments":{"message":"`+strings.Repeat("x", 15<<20)+`"}}`)
		v.repeat(8, func(int) { v.refused(v.post(body), 200, 503, 0) })
	}},
	"announced continuation": {attack: func(v *visit) {
		v.hold(500, "POST /mcp HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Type: application/json\r\nContent-Length: 16000000\r\n\r\n")
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
