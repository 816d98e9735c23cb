//go:build unix

package daemon

import (
	"context"
	"io"
	"net/http"
	"path/filepath"
	"testing"

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
	if found := Routers(ctx, sockets, "another build"); len(found) != 0 {
		t.Errorf("a router of another build is asked: %v", found)
	}
	found := Routers(ctx, sockets, "this build")
	if len(found) != 1 {
		t.Fatalf("%d routers, want 1", len(found))
	}
	q, err := http.NewRequest(http.MethodGet, "http://router/dashboard/tools", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := found[0].RoundTrip(q)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, _ := io.ReadAll(answer.Body); string(text) != "/dashboard/tools" {
		t.Errorf("the router sees %s", text)
	}
	cancel()
	if err := <-served; err != nil {
		t.Error(err)
	}
	if found := Routers(t.Context(), sockets, "this build"); len(found) != 0 {
		t.Errorf("a router that has ended is asked: %v", found)
	}
}
