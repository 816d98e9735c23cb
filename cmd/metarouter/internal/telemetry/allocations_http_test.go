//go:build unix && !race

package telemetry

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/cmd/metarouter/internal/web"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/server"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// A webClient is a connection to a router over HTTP that allocates nothing per call.
type webClient struct {
	conn    net.Conn
	lines   *bufio.Reader
	session string
}

// newWebClient starts a router in this process, with a server behind it, and connects.
func newWebClient(t *testing.T) *webClient {
	t.Helper()
	file, address := t.TempDir()+"/mcp.json", mcptest.FreeAddress(t)
	command, args := mcptest.Command("-tools", "echo")
	text := fmt.Sprintf(`{"mcpServers": {"s": {"command": %q, "args": ["%s"]}}}`, command, strings.Join(args, `", "`))
	expect.OK(t, os.WriteFile(file, []byte(text), 0o600))
	c, err := config.Load(file)
	expect.OK(t, err)
	l, err := web.New(c.Router.HTTP, web.Flags{Address: address}, http.NewServeMux(), zap.NewNop())
	if err == nil {
		err = l.Listen(t.Context())
	}
	expect.OK(t, err)
	metrics := NewMetrics("")
	r := adapter.New(c, adapter.Options{Observer: metrics})
	s := server.NewServers(server.Profiles{
		Open: func(_ server.View, chosen []string) (server.Router, server.Options) {
			return r.Scope(chosen...), server.Options{Mode: exposure.Direct, ListWait: c.Router.ListWait, Observer: metrics, Savings: metrics}
		},
		Edited: r.Edited, Whole: r,
	})
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.Run(ctx, nil) })
	g.Go(func() error { return s.Run(ctx) })
	g.Go(func() error { return l.Serve(ctx, s, r) })
	conn, err := net.Dial("tcp", address)
	expect.OK(t, err)
	t.Cleanup(func() {
		conn.Close()
		cancel()
		expect.OK(t, g.Wait())
	})
	return &webClient{conn: conn, lines: bufio.NewReaderSize(conn, 64<<10)}
}

// calls returns a function that makes a request with a call of some bytes in one of three ways: of a session
// of the legacy era, of the modern era, and without any header that a client of MCP sends.
func (c *webClient) calls(t *testing.T, way string) func(size int) []byte {
	const accept = "Accept: application/json, text/event-stream"
	headers := []string{}
	switch way {
	case "session":
		c.ask(t, c.request([]byte(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"path","version":"1"}}}`), accept))
		headers = []string{accept, "Mcp-Session-Id: " + c.session, "MCP-Protocol-Version: 2025-06-18"}
		c.ask(t, c.request([]byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`), headers...))
	case "modern":
		headers = []string{accept, "MCP-Protocol-Version: 2026-07-28", "Mcp-Method: tools/call", "Mcp-Name: s__echo"}
	}
	return func(size int) []byte {
		call := bytes.TrimSpace(echoCall(size))
		if way == "modern" {
			call = bytes.Replace(call, []byte(`"params":{`), []byte(`"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"path","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}},`), 1)
		}
		return c.request(call, headers...)
	}
}

func (c *webClient) request(body []byte, headers ...string) []byte {
	b := fmt.Appendf(nil, "POST /mcp HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n", c.conn.RemoteAddr(), len(body))
	for _, h := range headers {
		b = append(b, h+"\r\n"...)
	}
	return append(append(b, "\r\n"...), body...)
}

// ask sends a request and reads its answer.
func (c *webClient) ask(t *testing.T, request []byte) {
	_, err := c.conn.Write(request)
	expect.OK(t, err)
	status := c.line(t)
	if !bytes.HasPrefix(status, []byte("HTTP/1.1 20")) {
		t.Fatalf("%s", status)
	}
	length, isChunked := 0, false
	for header := c.line(t); len(header) > 0; header = c.line(t) {
		if rest, ok := bytes.CutPrefix(header, []byte("Content-Length: ")); ok {
			length = parseDigits(rest, 10)
		}
		isChunked = isChunked || bytes.Equal(header, []byte("Transfer-Encoding: chunked"))
		if rest, ok := bytes.CutPrefix(header, []byte("Mcp-Session-Id: ")); ok {
			c.session = string(rest)
		}
	}
	if !isChunked {
		c.discard(t, length)
		return
	}
	for size := -1; size != 0; {
		size = parseDigits(c.line(t), 16)
		c.discard(t, size+len("\r\n"))
	}
}

func (c *webClient) line(t *testing.T) []byte {
	line, err := c.lines.ReadSlice('\n')
	expect.OK(t, err)
	return bytes.TrimRight(line, "\r\n")
}

func (c *webClient) discard(t *testing.T, bytes int) {
	_, err := c.lines.Discard(bytes)
	expect.OK(t, err)
}

// parseDigits parses digits in lower case without an allocation.
func parseDigits(digits []byte, base int) (n int) {
	for _, d := range digits {
		if d >= 'a' {
			d -= 'a' - '9' - 1
		}
		n = n*base + int(d-'0')
	}
	return n
}
