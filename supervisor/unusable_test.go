//go:build unix

package supervisor

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/peer"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// Over every kind of HTTP, an answer that clients can't read fails its call with an error that
// names the server, and half a pair is replaced; the status counts such answers.
func TestRemoteUnusable(t *testing.T) {
	t.Parallel()
	const half = `{"content":[{"text":"\ud800"}]}`
	notUTF8 := "{\"content\":[{\"text\":\"caf\xe9\"}]}"
	deep := `{"content":[{"text":"x"}],"structuredContent":` + strings.Repeat("[", wire.MaxLevels) + strings.Repeat("]", wire.MaxLevels) + `}`
	answers := map[string]string{"half": half, "bytes": notUTF8, "deep": deep}
	which := func(v visit) string {
		name, _ := wire.String(wire.Member(v.m.Params, "name"))
		return answers[name]
	}
	servers := map[string]func(*testing.T) config.Server{
		"json": func(t *testing.T) config.Server {
			return at(newFar(t, func(f *far) {
				f.answer = only("tools/call", func(w http.ResponseWriter, v visit) { result(w, v.m, which(v)) })
			}).URL, config.StreamableHTTP)
		},
		"json, an error": func(t *testing.T) config.Server {
			return at(newFar(t, func(f *far) {
				f.answer = only("tools/call", func(w http.ResponseWriter, v visit) {
					what := which(v)
					if what == half {
						result(w, v.m, what)
						return
					}
					w.WriteHeader(http.StatusOK)
					fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":1,"message":"m","data":%s}}`, v.m.ID, what)
				})
			}).URL, config.StreamableHTTP)
		},
		"events": func(t *testing.T) config.Server {
			return at(newFar(t, func(f *far) {
				f.answer = only("tools/call", func(w http.ResponseWriter, v visit) {
					say(w, `data: {"jsonrpc":"2.0","id":%s,"result":%s}`, v.m.ID, which(v))
				})
			}).URL, config.StreamableHTTP)
		},
		"sse": func(t *testing.T) config.Server {
			srv := newFarSSE(t, "/messages", nil)
			srv.says = which
			return at(srv.URL, config.SSE)
		},
	}
	for name, server := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := supervise(t, server(t))
			f.await("r", status.Ready)
			expect.Equal(t, f.mustCall("r", "half", "{}"), "\ufffd", "half a pair became")
			for tool, want := range map[string]error{"bytes": wire.ErrNotUTF8, "deep": wire.ErrTooDeep} {
				_, err := f.call("r", tool, "{}")
				if bad, ok := errors.AsType[*peer.AnswerError](err); !ok || bad.Server != "r" || !errors.Is(err, want) {
					t.Errorf("%s: %v", tool, err)
				}
			}
			expect.Equal(t, f.state("r").Unusable.Count, 2, "counted")
		})
	}
}

// A list that is longer than a message may be fails the start as what it is, not as a timeout.
func TestListTooLong(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 64 MiB")
	}
	t.Parallel()
	srv := newFar(t, func(f *far) {
		f.answer = only("tools/list", func(w http.ResponseWriter, v visit) {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[],"x":"`, v.m.ID)
			for range 65 {
				fmt.Fprint(w, strings.Repeat("x", 1<<20))
			}
			fmt.Fprint(w, `"}}`)
		})
	})
	f := supervise(t, at(srv.URL, config.StreamableHTTP))
	mcptest.WaitFor(t, "the start to fail", func() bool { return f.state("r").Fault != nil })
	st := f.state("r")
	if st.Fault.Kind != status.OtherFault || !st.Fault.Listing || !strings.Contains(st.Fault.Message, "64 MiB") || st.Fault.After > time.Minute {
		t.Errorf("fault %+v", st.Fault)
	}
}

// A changed list that can't be read leaves the old one in use, and the status says why.
func TestOutdated(t *testing.T) {
	t.Parallel()
	var lists atomic.Int32
	srv := newFar(t, func(f *far) {
		f.id = "s1"
		f.answer = func(w http.ResponseWriter, v visit) bool {
			switch {
			case v.Request.Method == "GET":
				say(w, `data: {"method":"notifications/tools/list_changed"}`)
				<-v.Context().Done()
			case v.m.Method == "tools/list" && lists.Add(1) > 1:
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-1,"message":"no list now"}}`, v.m.ID)
			default:
				return false
			}
			return true
		}
	})
	f := supervise(t, at(srv.URL, config.StreamableHTTP))
	mcptest.WaitFor(t, "the changed list to fail", func() bool { return strings.Contains(f.state("r").Outdated, "no list now") })
	if n, tools := f.listings("r"); n != 1 || !strings.Contains(tools, "echo") || f.state("r").State != status.Ready {
		t.Errorf("listed %d times, %s; the server is %s", n, tools, f.state("r").State)
	}
}
