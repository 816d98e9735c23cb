package classify

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// A server at a URL is called in whichever style it speaks.
func TestStyles(t *testing.T) {
	layer.Integration(t)
	for name, handler := range map[string]func(*neighbour) http.Handler{
		"plain": func(n *neighbour) http.Handler {
			return only("/mcp", func(w http.ResponseWriter, r *http.Request) {
				var m struct {
					ID     json.RawMessage
					Params json.RawMessage
				}
				json.NewDecoder(r.Body).Decode(&m)
				reply(w, map[string]any{"jsonrpc": "2.0", "id": m.ID, "result": n.call(m.Params)})
			})
		},
		"streamable": func(n *neighbour) http.Handler { return n.streamable(false) },
		"stateless":  func(n *neighbour) http.Handler { return n.streamable(true) },
	} {
		t.Run(name, func(t *testing.T) {
			n := newNeighbour()
			inner := handler(n)
			var down atomic.Bool
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("X-Key") != "secret" {
					w.WriteHeader(http.StatusUnauthorized)
				} else if down.Load() {
					w.WriteHeader(http.StatusServiceUnavailable)
				} else {
					inner.ServeHTTP(w, r)
				}
			}))
			t.Cleanup(server.Close)
			o := options()
			o.Server, o.URL, o.Headers = "", server.URL+"/mcp", map[string]string{"X-Key": "secret"}
			k := started(t, config.Classification{Outside: &o, Threshold: 0.6}, nil)
			if got := outcome(t, k, "b"); got.Source != sourceOutside || got.Category != "b" {
				t.Fatalf("%+v, %+v", got, k.Health().Outside)
			}
			down.Store(true)
			expect.Equal(t, outcome(t, k, "b").Source, sourceBuiltin)
			down.Store(false)
			mcptest.WaitFor(t, "the server to be used again", func() bool { return outcome(t, k, "b").Source == sourceOutside })
		})
	}
}
