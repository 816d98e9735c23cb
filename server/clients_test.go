package server

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/exposure"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// known returns the clients of a server as lines, sorted.
func known(s *alone) string {
	var lines []string
	for _, k := range s.Clients() {
		lines = append(lines, fmt.Sprintf("%s %s %s %s %d", cmp.Or(k.Name, "-"), cmp.Or(k.Version, "-"), cmp.Or(k.Revision, "-"), k.Transport, k.Calls))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// The server knows its clients on every path, and what they call.
func TestClients(t *testing.T) {
	r := newFake(tool("a", "b"))
	w := serveWeb(t, r, Options{Mode: exposure.Direct}, HTTPOptions{})
	expect.Equal(t, known(w.server), "", "at first")
	const call = `"name":"a__b","arguments":{}`
	session := w.session()
	for range 3 {
		w.text(http.MethodPost, "/mcp", rpc("tools/call", call), session...)
	}
	w.text(http.MethodPost, "/mcp", rpc("tools/list", ""), session...)
	for _, name := range []string{"new", "other", "new"} {
		meta := strings.Replace(modernMeta, `"_meta":{`, fmt.Sprintf(`"_meta":{"io.modelcontextprotocol/clientInfo":{"name":%q,"version":"2"},`, name), 1)
		w.text(http.MethodPost, "/mcp", rpc("tools/call", call+","+meta), modernHeaders("tools/call", "a__b")...)
	}
	w.text(http.MethodPost, "/mcp", rpc("tools/call", call), "User-Agent", "curl/8.5.0 (x)")
	w.text(http.MethodPost, "/mcp/tools/call", "{"+call+"}", "User-Agent", "curl/8.5.0 (x)")
	w.text(http.MethodPost, "/mcp/tools/nothing", "{"+call+"}", "User-Agent", "refused/1")
	want := `curl 8.5.0 - plain 2
new 2 2026-07-28 http 2
other 2 2026-07-28 http 1
test 1 2025-11-25 http 3`
	expect.Equal(t, known(w.server), want)
}

// Over stdio, a client of the modern era is known by its requests, one of an older revision by
// initialize, and none before its first request or after its end.
func TestClientsOverStdio(t *testing.T) {
	for name, test := range map[string]struct{ request, want string }{
		"older":  {`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"old","version":"1"}}}`, "old 1 2025-06-18 stdio 0"},
		"modern": {rpc("tools/call", `"name":"a__b","arguments":{},`+strings.Replace(modernMeta, `"_meta":{`, `"_meta":{"io.modelcontextprotocol/clientInfo":{"name":"new","version":"2"},`, 1)), "new 2 2026-07-28 stdio 1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newAlone(newFake(tool("a", "b")), Options{Mode: exposure.Direct})
			in, toServer := io.Pipe()
			fromServer, out := io.Pipe()
			ended := make(chan error, 1)
			go func() { ended <- s.Serve(t.Context(), nil, in, out) }()
			answers := bufio.NewScanner(fromServer)
			expect.Equal(t, known(s), "", "before its first request")
			io.WriteString(toServer, test.request+"\n")
			answers.Scan()
			expect.Equal(t, known(s), test.want)
			toServer.Close()
			expect.OK(t, <-ended)
			expect.Equal(t, known(s), "", "at the end")
		})
	}
}

// The number of clients without a session is bounded, and they are forgotten.
func TestVisitorsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := serveWeb(t, newFake(tool("a", "b")), Options{Mode: exposure.Direct}, HTTPOptions{})
		for i := range 150 {
			w.text(http.MethodPost, "/mcp", rpc("tools/list", ""), "User-Agent", fmt.Sprintf("agent%d/1", i))
			time.Sleep(time.Second)
		}
		all := known(w.server)
		if n := strings.Count(all, "agent"); n != 100 || strings.Contains(all, "agent49 ") || !strings.Contains(all, "agent50 ") {
			t.Errorf("%d clients: %s", n, all)
		}
		time.Sleep(9 * time.Minute)
		w.text(http.MethodPost, "/mcp", rpc("tools/list", ""), "User-Agent", "agent60/1")
		time.Sleep(2 * time.Minute)
		expect.Equal(t, known(w.server), "agent60 1 - plain 0", "later")
	})
}
