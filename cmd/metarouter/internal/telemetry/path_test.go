//go:build unix

package telemetry

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/mcp-metarouter/metarouter/adapter"
	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/internal/pipe"
	"github.com/mcp-metarouter/metarouter/server"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// A path is a router in this process, with a server behind it and a client that
// allocates nothing.
type path struct {
	in    *os.File
	lines *bufio.Reader
}

func newPath(tb testing.TB) *path {
	tb.Helper()
	file := tb.TempDir() + "/mcp.json"
	command, args := mcptest.Command("-tools", "echo")
	text := fmt.Sprintf(`{"mcpServers": {"s": {"command": %q, "args": ["%s"]}}}`, command, strings.Join(args, `", "`))
	expect.OK(tb, os.WriteFile(file, []byte(text), 0o600))
	c, err := config.Load(file)
	expect.OK(tb, err)
	metrics := NewMetrics("") // which are counted whenever somebody can ask for them
	r := adapter.New(c, adapter.Options{Observer: metrics})
	options := server.Options{Mode: exposure.Direct, ListWait: c.Router.ListWait, Observer: metrics, Savings: metrics}
	servers := server.NewServers(server.Profiles{Open: func(server.View, []string) (server.Router, server.Options) { return r.Scope(), options }})
	inR, inW, err := os.Pipe()
	expect.OK(tb, err)
	outR, outW, err := os.Pipe()
	expect.OK(tb, err)
	ctx, cancel := context.WithCancel(tb.Context())
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.Run(ctx, nil) })
	g.Go(func() error { return servers.Run(ctx) })
	g.Go(func() error { return servers.Default.Serve(ctx, nil, pipe.New(inR), pipe.New(outW)) })
	tb.Cleanup(func() {
		inW.Close()
		cancel()
		outR.Close()
		if err := g.Wait(); err != nil {
			tb.Error(err)
		}
	})
	p := &path{inW, bufio.NewReaderSize(outR, 4<<20)}
	p.ask(tb, []byte(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"path","version":"1"}}}`+"\n"))
	p.ask(tb, []byte(`{"jsonrpc":"2.0","id":0,"method":"tools/list"}`+"\n"))
	return p
}

// ask sends a line and reads the answer.
func (p *path) ask(tb testing.TB, line []byte) {
	if _, err := p.in.Write(line); err != nil {
		tb.Fatal(err)
	}
	answer, err := p.lines.ReadSlice('\n')
	for err == nil && !bytes.HasPrefix(answer, []byte(`{"jsonrpc":"2.0","id":`)) { // a notification
		answer, err = p.lines.ReadSlice('\n')
	}
	if err == nil && bytes.Contains(answer[:min(len(answer), 100)], []byte(`"error"`)) {
		err = fmt.Errorf("%s", answer)
	}
	if err != nil && err != io.EOF {
		tb.Fatal(err)
	}
}

// echoCall is a call with so many bytes of prose.
func echoCall(size int) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"s__echo","arguments":{"message":%q}}}`+"\n",
		strings.Repeat("prose, with \"quotes\". ", size/20+1)[:size])
}

// BenchmarkPath measures the work of the router for a call, from the client's line to
// the client's line.
func BenchmarkPath(b *testing.B) {
	for _, size := range []int{100, 64 << 10, 1 << 20} {
		b.Run(fmt.Sprintf("bytes=%d", size), func(b *testing.B) {
			p := newPath(b)
			line := echoCall(size)
			p.ask(b, line)
			b.ReportAllocs()
			for b.Loop() {
				p.ask(b, line)
			}
		})
	}
}
