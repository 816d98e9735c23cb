package adapter

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/mcptest"
	"github.com/mcp-metarouter/metarouter/supervisor"
)

func TestTurn(t *testing.T) {
	on, off := fake("a"), fake("b")
	off.Disabled = true
	r, edits := running(t, Options{}, on, off)
	settled(t, r)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	want := func(server string, state supervisor.State, byHand bool) {
		t.Helper()
		for _, s := range r.Servers() {
			if s.Name == server && (s.State != state || s.ByHand != byHand || (s.Tools > 0) != (state == supervisor.Ready)) {
				t.Errorf("server %s is %s, by hand: %v, %d tools; want %s, %v", server, s.State, s.ByHand, s.Tools, state, byHand)
			}
		}
	}
	want("a", supervisor.Ready, false)
	want("b", supervisor.Disabled, false)
	for _, name := range []string{"a", "b"} {
		if err := r.Turn(ctx, name, name == "b"); err != nil {
			t.Fatal(err)
		}
	}
	want("a", supervisor.Disabled, true)
	want("b", supervisor.Ready, true)

	// An edit of another entry leaves what was asked for by hand; one of its own does not.
	off.Timeout = time.Minute
	edits <- config.Config{Servers: []config.Server{on, off}}
	mcptest.WaitFor(t, "the edit", func() bool { return r.Config().Servers[1].Timeout != 0 })
	r.until(ctx, func() bool { s, _ := r.status("b"); return s.State == supervisor.Disabled }, nil)
	want("a", supervisor.Disabled, true)
	want("b", supervisor.Disabled, false)

	if err := r.Await(ctx, "a"); err == nil || !strings.Contains(err.Error(), "stopped by hand") {
		t.Errorf("a call of it is refused with %v", err)
	}
	if err := r.Restart(ctx, "a"); err != nil {
		t.Fatal(err)
	}
	want("a", supervisor.Ready, false)
	if err := r.Turn(ctx, "nobody", true); err == nil {
		t.Error("a server that is not there was turned on")
	}
}
