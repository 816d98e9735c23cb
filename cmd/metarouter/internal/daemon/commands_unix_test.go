//go:build unix

package daemon

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// Only a router of the same build is asked, and it sees the path as the page has it.
func TestRouters(t *testing.T) {
	sockets := Sockets{filepath.Join(t.TempDir(), "run"), "x."}
	ctx, cancel := context.WithCancel(t.Context())
	served := make(chan error, 1)
	mux := http.NewServeMux()
	Answer(mux, "this build", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.URL.Path) }))
	go func() { served <- Serve(ctx, sockets, mux) }()
	mcptest.WaitFor(t, "the router", func() bool { return Running(sockets) })
	expect.Equal(t, len(Routers(ctx, sockets, "another build")), 0, "a router of another build is asked")
	found := Routers(ctx, sockets, "this build")
	if len(found) != 1 {
		t.Fatalf("%d routers, want 1", len(found))
	}
	q, err := http.NewRequest(http.MethodGet, "http://router/dashboard/tools", nil)
	expect.OK(t, err)
	answer, err := found[0].RoundTrip(q)
	expect.OK(t, err)
	defer answer.Body.Close()
	if text, _ := io.ReadAll(answer.Body); string(text) != "/dashboard/tools" {
		t.Errorf("the router sees %s", text)
	}
	cancel()
	expect.OK(t, <-served)
	expect.Equal(t, len(Routers(t.Context(), sockets, "this build")), 0, "a router that has ended is asked")
}
