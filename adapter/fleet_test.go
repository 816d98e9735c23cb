package adapter

import (
	"slices"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
	"github.com/mcp-metarouter/metarouter/test/play"
)

func TestTurn(t *testing.T) {
	on, off := fake("a"), fake("b")
	off.Disabled = true
	r, edits := running(t, Options{}, on, off)
	settled(t, r)
	expect.OK(t, r.Await(t.Context(), "a")) // its tools are known a moment before
	want := func(server string, state status.State, byHand bool) {
		t.Helper()
		for _, s := range r.Servers() {
			if s.Name == server && (s.State != state || s.ByHand != byHand || (s.Tools > 0) != (state == status.Ready)) {
				t.Errorf("server %s is %s, by hand: %v, %d tools; want %s, %v", server, s.State, s.ByHand, s.Tools, state, byHand)
			}
		}
	}
	want("a", status.Ready, false)
	want("b", status.Disabled, false)
	for _, name := range []string{"a", "b"} {
		expect.OK(t, r.Turn(t.Context(), name, name == "b"))
	}
	want("a", status.Disabled, true)
	want("b", status.Ready, true)

	// A server turned off by hand stays off after an edit of another entry, but not of its own.
	off.Timeout = time.Minute
	edits <- config.Config{Servers: []config.Server{on, off}}
	mcptest.WaitFor(t, "the edit", func() bool { return r.Config().Servers[1].Timeout != 0 })
	until(t.Context(), r.supervisor, func() bool { s, _ := statusOf(r.supervisor, "b"); return s.State == status.Disabled }, nil)
	want("a", status.Disabled, true)
	want("b", status.Disabled, false)

	expect.Error(t, r.Await(t.Context(), "a"), "stopped by hand", "a call of it is refused")
	expect.OK(t, r.Restart(t.Context(), "a"))
	want("a", status.Ready, false)
	if err := r.Turn(t.Context(), "nobody", true); err == nil {
		t.Error("a server that is not there was turned on")
	}
}

// Edits of "metarouter" change how the router tags and classifies, without a restart of
// servers.
func TestSettingsAreLive(t *testing.T) {
	data, pids := t.TempDir(), t.TempDir()+"/pids"
	entry := fake("s", "-tools", "frobnicate", "-pid-file", pids)
	c := config.Config{Servers: []config.Server{entry}}
	r, edits := runningWith(t, c, Options{DataDir: data})
	settled(t, r)
	if len(r.FindByCapability("oddity")) != 0 {
		t.Fatal("it does not begin as configured")
	}

	c.Router = config.Router{Capabilities: map[string][]string{"oddity": {"frobnicate"}}}
	edits <- c
	mcptest.WaitFor(t, "the new tag", func() bool { return len(r.FindByCapability("oddity")) == 1 })
	mcptest.WaitFor(t, "the tag as a category", func() bool {
		return slices.Contains(r.Classifier().Categories().Categories, "oddity")
	})
	r.writer.Saves.All()
	again := New(c, Options{DataDir: data, Play: play.Server})
	expect.Equal(t, len(again.FindByCapability("oddity")), 1, "the tools are not stored with their new tag")

	c.Router = config.Router{Classification: &config.Classification{Categories: []config.Category{{Name: "greeting"}}}}
	edits <- c
	mcptest.WaitFor(t, "the category", func() bool {
		return slices.Equal(r.Classifier().Categories().Categories, []string{"greeting"})
	})
	mcptest.WaitFor(t, "the end of the tag that was taken out", func() bool { return len(r.FindByCapability("oddity")) == 0 })

	c.Router = config.Router{}
	edits <- c
	mcptest.WaitFor(t, "the tags as categories", func() bool { return len(r.Classifier().Categories().Categories) > 1 })

	entry.Capabilities = []string{"Fresh"}
	c.Servers = []config.Server{entry}
	edits <- c
	mcptest.WaitFor(t, "the entry's tag as a category", func() bool {
		return slices.Contains(r.Classifier().Categories().Categories, "fresh")
	})

	sure := func() bool {
		selected, err := r.Select(t.Context(), selector.Query{Task: "frobnicate"})
		return err == nil && selected.Sure
	}
	if !sure() {
		t.Error("the only tool that fits is not a sure answer")
	}
	c.Router.FindThreshold = 0.9999
	edits <- c
	mcptest.WaitFor(t, "the new findThreshold", func() bool { return !sure() })
	expect.Equal(t, len(mcptest.PIDs(t, pids)), 1, "processes of the server")
}
