//go:build unix

package supervisor

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/peer"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// newFarSSE returns a server of the transport of 2024-11-05 that names endpoint.
// Calls of tools are up to call, unless that is nil; then their results are up to its says.
func newFarSSE(t *testing.T, endpoint string, call http.HandlerFunc) *far {
	var mu sync.Mutex // guards stream
	var stream http.ResponseWriter
	return newFar(t, func(f *far) {
		f.early = func(w http.ResponseWriter, v visit) bool {
			switch {
			case v.Request.Method == "GET":
				mu.Lock()
				stream = w
				say(w, "event: endpoint\ndata: %s", endpoint)
				mu.Unlock()
				<-v.Context().Done()
				mu.Lock()
				if stream == w {
					stream = nil
				}
				mu.Unlock()
			case v.URL.Path != "/messages":
				http.Error(w, "no POST here", http.StatusMethodNotAllowed)
			case v.m.Method == "tools/call" && call != nil:
				call(w, v.Request)
			case v.m.ID != nil:
				mu.Lock()
				defer mu.Unlock()
				w.WriteHeader(http.StatusAccepted)
				what := `{"content":[]}`
				switch {
				case v.m.Method == peer.Initialize:
					what = `{"protocolVersion":"2024-11-05","capabilities":{},"serverInfo":{"name":"far","version":"1"}}`
				case v.m.Method == "tools/list":
					what = `{"tools":[]}`
				case f.says != nil:
					what = f.says(v)
				}
				if stream == nil {
					break // who asked has left
				}
				say(stream, "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}", v.m.ID, what)
			default:
				w.WriteHeader(http.StatusAccepted)
			}
			return true
		}
	})
}

func TestSSE(t *testing.T) {
	t.Parallel()
	srv := newFarSSE(t, "messages?session=1", nil)
	data := t.TempDir()
	for run, want := range []string{
		"POST server/discover, POST initialize, GET , POST initialize, POST notifications/initialized, POST tools/list, POST tools/call",
		"GET , POST initialize, POST notifications/initialized, POST tools/list, POST tools/call", // it is remembered
		"GET , POST server/discover, POST tools/list, POST tools/call",                            // it has learned
	} {
		t.Run(fmt.Sprint(run), func(t *testing.T) {
			transport, revision := "sse", session.Oldest
			if run == 2 {
				srv.mu.Lock()
				srv.early, srv.modern = nil, true
				srv.mu.Unlock()
				transport, revision = "http", session.Modern
			}
			f := superviseIn(t, data, at(srv.URL+"/sse", config.AutoHTTP))
			st := f.await("r", status.Ready)
			f.mustCall("r", "x", "{}")
			f.stop()
			if st.Transport != transport || st.ProtocolVersion != revision {
				t.Errorf("status = %+v", st)
			}
			expect.Equal(t, strings.Join(methods(srv.seen(func(visit) bool { return true })), ", "), want, "asked")
			srv.mu.Lock()
			srv.visits = nil
			srv.mu.Unlock()
		})
	}
}

func TestSSEEnds(t *testing.T) {
	t.Parallel()
	srv := newFarSSE(t, "/messages", nil)
	f := supervise(t, at(srv.URL, config.SSE))
	f.await("r", status.Ready)
	s, err := f.Session(t.Context(), "r", nil)
	expect.OK(t, err)
	srv.CloseClientConnections()
	<-s.Done()
	f.mustCall("r", "x", "{}") // over the next one
}

// "type": "http" reaches a server that has the older transport alone.
func TestSSEOfTypeHTTP(t *testing.T) {
	t.Parallel()
	for _, refusal := range []int{400, 404, 405, 406, 415, 501} {
		srv := newFarSSE(t, "messages?session=1", nil)
		sse := srv.early
		srv.early = func(w http.ResponseWriter, v visit) bool {
			if v.Request.Method == "POST" && v.URL.Path != "/messages" {
				w.WriteHeader(refusal)
				return true
			}
			return sse(w, v)
		}
		f := supervise(t, at(srv.URL+"/sse", config.StreamableHTTP))
		f.await("r", status.Ready)
		f.mustCall("r", "x", "{}")
	}
}

func TestSSERefused(t *testing.T) {
	t.Parallel()
	elsewhere := newFarSSE(t, "http://127.0.0.2:1/messages", nil)
	neither := newFar(t, func(f *far) {
		f.early = func(w http.ResponseWriter, v visit) bool { http.NotFound(w, v.Request); return true }
	})
	a, b, c := at(elsewhere.URL, config.SSE), at(neither.URL, config.AutoHTTP), at(neither.URL, config.StreamableHTTP)
	a.Name, b.Name, c.Name = "a", "b", "c"
	f := supervise(t, a, b, c)
	for name, want := range map[string]string{"a": "at another place", "b": "neither streamable HTTP nor SSE", "c": "HTTP 404"} {
		mcptest.WaitFor(t, name+" to fail", func() bool { return f.state(name).LastError != "" })
		expect.Contains(t, f.state(name).LastError, want, "%s", name)
	}
	if n := len(neither.seen(func(v visit) bool { return v.Request.Method == "GET" })); n == 0 || n > 10 {
		t.Errorf("the event stream was asked for %d times", n)
	}
}
