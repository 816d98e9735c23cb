package daemon

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// A requestBody is the body of a request to net/http's server: its end comes with the last bytes,
// and it is closed when the answer begins. Here it is closed at once.
type requestBody struct {
	left string
	past atomic.Bool // it was read again after its end
}

func (b *requestBody) Read(p []byte) (int, error) {
	if b.left == "" {
		b.past.Store(true)
		return 0, http.ErrBodyReadAfterClose
	}
	n := copy(p, b.left)
	if b.left = b.left[n:]; b.left == "" {
		return n, io.EOF
	}
	return n, nil
}

func (b *requestBody) Close() error { return nil }

// The proxy sees the end of a request before the answer begins: later it can't, and would cut the
// answer.
func TestProxyReadsRequestFirst(t *testing.T) {
	sockets := Sockets{filepath.Join(t.TempDir(), "run"), "x."}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() {
		ended <- Serve(ctx, sockets, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }))
	}()
	mcptest.WaitFor(t, "the router", func() bool { return Running(sockets) })
	proxy := Proxy(sockets, func(_ http.ResponseWriter, _ *http.Request, err error) { t.Errorf("no answer: %v", err) })
	body := &requestBody{left: "request"}
	w, r := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), "POST", "/dashboard/x", body)
	r.ContentLength = int64(len(body.left))
	proxy.ServeHTTP(w, r)
	expect.Equal(t, w.Body.String(), "request", "answer")
	end()
	expect.OK(t, <-ended)
	if body.past.Load() {
		t.Error("the request was read while it was answered")
	}
}

// A request with a body that is too long is refused, and reaches no router.
func TestProxyRefusesLongBody(t *testing.T) {
	proxy := Proxy(Sockets{}, func(http.ResponseWriter, *http.Request, error) { t.Error("it was passed on") })
	w := httptest.NewRecorder()
	proxy.ServeHTTP(w, httptest.NewRequest("POST", "/dashboard/x", strings.NewReader(strings.Repeat("x", maxRequest+1))))
	expect.Equal(t, w.Code, http.StatusRequestEntityTooLarge, "%s", w.Body)
}
