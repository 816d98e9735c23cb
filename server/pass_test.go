package server

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/test/expect"
)

// A request whose requestState has another router's address goes to that router, with the profiles and the principal of
// the client, which gets the messages and the answer.
func TestPass(t *testing.T) {
	const state = `"requestState":"mr1.c2VhbGVk@OTHER.R","inputResponses":{}`
	body := rpc("tools/call", `"name":"a__b",`+state+`,`+askingMeta)
	for name, test := range map[string]struct {
		answers []string // of the other router, without line ends; nil if it can't be reached
		want    []string // in the answer that the client gets
	}{
		"a result": {[]string{
			`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":5}}`,
			`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`,
			`{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","content":[],"_meta":{"node_id":"other"}}}`,
		}, []string{`"progress":5}`, `"id":1,"result":{"resultType":"complete"`, `"node_id":"other"`}},
		"an error":   {[]string{`{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"expired"}}`}, []string{`"code":-32602`, `"expired"`}},
		"no message": {[]string{`nonsense`}, []string{`"code":-32603`, "was lost"}},
		"its end":    {[]string{}, []string{`"code":-32603`, "was lost"}},
		"no stream":  {nil, []string{`"code":-32602`, "can't be reached", "without the requestState"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := passing(t, func(conn net.Conn, request string) {
					params := wire.Member([]byte(request), "params")
					about := string(wire.Member(wire.Member(params, "_meta"), clusternode.MetaKey))
					if about != `{"id":"","origin":{"profile":"dev"}}` || !strings.Contains(string(params), state) {
						t.Errorf("the other router got %s", request)
					}
					for _, line := range test.answers {
						io.WriteString(conn, line+"\n")
					}
				}, test.answers != nil)
				_, answer := w.text(http.MethodPost, "/mcp/p/dev", body, modernHeaders("tools/call", "a__b")...)
				for _, want := range test.want {
					expect.Contains(t, answer, want, "has")
				}
				expect.Equal(t, strings.Contains(answer, "list_changed"), false, "a message that belongs to no request: %s", answer)
			})
		})
	}
	t.Run("a client that leaves", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, leave := context.WithCancel(t.Context())
			ended := make(chan struct{})
			w := passing(t, func(conn net.Conn, _ string) {
				leave()
				io.Copy(io.Discard, conn) // until this router closes the stream
				close(ended)
			}, true)
			r, _ := http.NewRequestWithContext(ctx, http.MethodPost, "http://localhost/mcp/p/dev", strings.NewReader(body))
			for i, headers := 0, append(modernHeaders("tools/call", "a__b"), "Content-Type", "application/json"); i < len(headers); i += 2 {
				r.Header.Set(headers[i], headers[i+1])
			}
			if _, err := w.client.Do(r); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
			<-ended
		})
	})
}

// passing serves clients of a router that reaches another one, which answers a request by a function, if at all.
func passing(t *testing.T, answer func(conn net.Conn, request string), reaches bool) *web {
	p := newFakeProfiles(map[string]string{"dev": "a"}).profiles()
	p.Address = func() string { return "THIS.R" }
	p.DialRouter = func(_ context.Context, address string) (net.Conn, error) {
		if !reaches || address != "OTHER.R" {
			return nil, errors.New("there is no such router")
		}
		here, there := net.Pipe()
		go func() { // it ends with the stream
			defer there.Close()
			request, _ := bufio.NewReader(there).ReadString('\n')
			answer(there, request)
		}()
		return here, nil
	}
	s := NewServers(p)
	return serveHandler(t, s.Handler(HTTPOptions{}), s.Run)
}
