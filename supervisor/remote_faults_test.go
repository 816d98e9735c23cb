//go:build unix

package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/peer"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/transport"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

func TestRemoteNeedsAuth(t *testing.T) {
	t.Parallel()
	for _, code := range []int{http.StatusUnauthorized, http.StatusForbidden} {
		for _, method := range []string{peer.Discover, "tools/call"} {
			if code == http.StatusForbidden && method != peer.Discover {
				continue // one request alone: TestForbiddenRequest
			}
			t.Run(fmt.Sprint(code, method), func(t *testing.T) {
				t.Parallel()
				var closed sync.Once
				shut := make(chan struct{})
				srv := newFar(t, func(f *far) {
					f.early = func(w http.ResponseWriter, v visit) bool {
						if v.m.Method == method {
							closed.Do(func() { close(shut) })
						}
						if !signal.IsClosed(shut) {
							return false
						}
						w.Header().Set("WWW-Authenticate", "Bearer")
						w.WriteHeader(code)
						return true
					}
				})
				entry := at(srv.URL, config.AutoHTTP)
				entry.Headers = nil
				f := supervise(t, entry)
				if method != peer.Discover {
					f.await("r", status.Ready)
				}
				_, err := f.call("r", "echo", "{}")
				if err == nil || !strings.Contains(err.Error(), `put "Authorization": "Bearer ${TOKEN}"`) || !errors.Is(err, session.ErrNotSent) {
					t.Errorf("the call: %v", err)
				}
				st := f.await("r", status.NeedsAuth)
				expect.Contains(t, st.LastError, "needs a token", "status")
				n := len(srv.seen(by("POST", peer.Discover))) + len(srv.seen(by("POST", peer.Initialize)))
				if _, err := f.call("r", "echo", "{}"); err == nil || n > 3 {
					t.Errorf("tried %d times; %v", n, err)
				}
			})
		}
	}
}

// Nothing is followed to another place, where the headers would be shown.
func TestRemoteRedirects(t *testing.T) {
	t.Parallel()
	thief := newFar(t, func(f *far) {})
	srv := newFar(t, func(f *far) {
		f.early = func(w http.ResponseWriter, v visit) bool {
			switch v.URL.Path {
			case "/away":
				http.Redirect(w, v.Request, thief.URL+"/?secret=1", http.StatusTemporaryRedirect)
			case "/get":
				http.Redirect(w, v.Request, "/", http.StatusFound)
			case "/here":
				http.Redirect(w, v.Request, "/", http.StatusTemporaryRedirect)
			default:
				return false
			}
			return true
		}
	})
	away, get, here := at(srv.URL+"/away", config.AutoHTTP), at(srv.URL+"/get", config.AutoHTTP), at(srv.URL+"/here", config.AutoHTTP)
	away.Name, get.Name, here.Name = "away", "get", "here"
	f := supervise(t, away, get, here)
	f.await("here", status.Ready)
	for _, name := range []string{"away", "get"} {
		mcptest.WaitFor(t, name+" to fail", func() bool { return f.state(name).LastError != "" })
		if reason := f.state(name).LastError; !strings.Contains(reason, "redirects to http://127.0.0.1") || strings.Contains(reason, "secret") {
			t.Errorf("%s: %s", name, reason)
		}
	}
	if n := len(thief.seen(func(visit) bool { return true })); n > 0 {
		t.Errorf("the other place was asked %d times", n)
	}
}

func TestRemoteCancel(t *testing.T) {
	t.Parallel()
	for _, modern := range []bool{false, true} {
		t.Run(fmt.Sprint("modern ", modern), func(t *testing.T) {
			t.Parallel()
			begun, ended := make(chan struct{}), make(chan struct{})
			srv, f := remote(t, func(f *far) {
				f.modern = modern
				f.answer = only("tools/call", func(w http.ResponseWriter, v visit) {
					say(w, ": wait")
					close(begun)
					<-v.Context().Done()
					close(ended)
				})
			})
			s, err := f.Session(t.Context(), "r", nil)
			expect.OK(t, err)
			ctx, cancel := context.WithCancelCause(t.Context())
			go func() { <-begun; cancel(errors.New("the user left")) }()
			if _, err := s.Call(ctx, session.Request{Method: "tools/call", Params: []byte(`{"name":"x"}`)}); err == nil || err.Error() != "the user left" {
				t.Errorf("Call: %v", err)
			}
			<-ended
			notified := srv.seen(by("POST", peer.Cancelled))
			if modern && len(notified) != 0 || !modern && (len(notified) != 1 || wire.Member(notified[0].m.Params, "requestId") == nil) {
				t.Errorf("the server was notified %d times", len(notified))
			}
		})
	}
}

// A server that is gone is looked for again, as one that has crashed.
func TestRemoteGone(t *testing.T) {
	t.Parallel()
	srv, f := remote(t, func(f *far) { f.id = "s1" })
	s, err := f.Session(t.Context(), "r", nil)
	expect.OK(t, err)
	srv.Close()
	for i := range transport.MaxUnreached {
		_, err := s.Call(t.Context(), session.Request{Method: "tools/list"})
		stale := i <= 1 && errors.Is(err, session.ErrClosed) // written to one of two connections that were just closed
		if !stale && !errors.Is(err, session.ErrNotSent) {
			t.Errorf("a call to a server that is gone: %v", err)
		}
	}
	<-s.Done()
	mcptest.WaitFor(t, "the server to be looked for", func() bool {
		return strings.Contains(f.state("r").LastError, "connection refused")
	})
}

// A response that is no answer makes its call fail, and harms no other call.
func TestRemoteNonsense(t *testing.T) {
	t.Parallel()
	limited := 0 // calls of limited, which come one after the other
	srv, f := remote(t, func(f *far) {
		f.id = "s1"
		f.answer = func(w http.ResponseWriter, v visit) bool {
			name, _ := wire.String(wire.Member(v.m.Params, "name"))
			switch name {
			case "html":
				w.Header().Set("Content-Type", "text/html")
				io.WriteString(w, "<html><title>  Sign\nin</title></html>")
			case "limited":
				limited++
				w.Header().Set("Retry-After", "0")
				if limited%3 == 0 {
					result(w, v.m, `{}`)
					break
				}
				w.WriteHeader(http.StatusTooManyRequests)
			case "long":
				w.Header().Set("Retry-After", "61")
				w.WriteHeader(http.StatusTooManyRequests)
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"slow down"}}`, v.m.ID)
			case "unended":
				w.Header().Set("Content-Type", "text/event-stream")
				fmt.Fprintf(w, `data: {"jsonrpc":"2.0","id":%s,"result":{}}`, v.m.ID)
			case "502":
				http.Error(w, strings.Repeat("bad ", 1000), http.StatusBadGateway)
			case "huge":
				for range wire.MaxLine>>20 + 1 {
					if _, err := w.Write(make([]byte, 1<<20)); err != nil {
						break
					}
				}
			case "accepted":
				w.WriteHeader(http.StatusAccepted)
			case "params":
				w.WriteHeader(http.StatusBadRequest)
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"wrong"}}`, v.m.ID)
			case "batch":
				fmt.Fprintf(w, `[{"method":"notifications/message","params":{"n":1}},{"id":%s,"result":{}}]`, v.m.ID)
			default:
				return false
			}
			return true
		}
	})
	for name, want := range map[string]string{
		"html": "HTTP 200 OK: Sign in", "limited": "", "long": "HTTP 429 Too Many Requests: slow down; try again in 61 seconds", "unended": "", "502": "HTTP 502 Bad Gateway: bad bad", "accepted": "HTTP 202 Accepted", "huge": "answered with more than 64 MiB", "params": "wrong (code -32602)", "batch": "",
	} {
		_, err := f.call("r", name, "{}")
		if got := fmt.Sprint(err); want != "" && !strings.Contains(got, want) || want == "" && err != nil || len(got) > 300 {
			t.Errorf("%s: %v, want %q", name, err, want)
		}
	}
	expect.Equal(t, len(srv.seen(by("POST", peer.Initialize))), 1, "sessions were opened")
}

// What one request may not do is no reason to end the session.
func TestForbiddenRequest(t *testing.T) {
	t.Parallel()
	begun, finish := make(chan struct{}), make(chan struct{})
	_, f := remote(t, func(f *far) {
		f.answer = func(w http.ResponseWriter, v visit) bool {
			switch {
			case v.m.Method == "prompts/get":
				w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope"`)
				w.WriteHeader(http.StatusForbidden)
				return true
			case v.m.Method == "tools/call":
				close(begun)
				<-finish
			}
			return false
		}
	})
	called := make(chan error, 1)
	go func() {
		_, err := f.call("r", "echo", "{}")
		called <- err
	}()
	<-begun
	s, err := f.Session(t.Context(), "r", nil)
	expect.OK(t, err)
	_, err = s.Call(t.Context(), session.Request{Method: "prompts/get", Params: json.RawMessage("{}")})
	expect.Error(t, err, "403", "what is forbidden")
	close(finish)
	expect.OK(t, <-called, "another call")
	expect.Equal(t, f.state("r").State, status.Ready, "the server")
}

// A POST that the server does not end does not outlive its call.
func TestSSEPostEnds(t *testing.T) {
	t.Parallel()
	ended := make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	srv := newFarSSE(t, "/messages", func(_ http.ResponseWriter, r *http.Request) {
		cancel()
		<-r.Context().Done()
		close(ended)
	})
	f := supervise(t, at(srv.URL, config.SSE))
	f.await("r", status.Ready)
	if err := f.callAs(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("the call: %v", err)
	}
	mcptest.WaitFor(t, "the POST to end", func() bool { return signal.IsClosed(ended) })
}
