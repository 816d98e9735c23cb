package adapter

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"go.uber.org/zap/zaptest"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/registry"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
	"github.com/mcp-metarouter/metarouter/test/play"
)

func TestMain(m *testing.M) {
	embedIfAsked(Embed(Options{}))
	mcptest.ServeIfAsked()
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/blevesearch/bleve_index_api.AnalysisWorker"))
}

func fake(name string, flags ...string) config.Server {
	command, args := mcptest.Command(flags...)
	return config.Server{Name: name, Transport: config.Stdio, Command: command, Args: args, StartTimeout: 30 * time.Second}
}

// running runs a router of the servers until the test ends.
func running(t *testing.T, o Options, servers ...config.Server) (*Router, chan<- config.Config) {
	t.Helper()
	return runningWith(t, config.Config{Servers: servers}, o)
}

func runningWith(t *testing.T, c config.Config, o Options) (*Router, chan<- config.Config) {
	t.Helper()
	o.Log, o.Play = zaptest.NewLogger(t), play.Server
	r := New(c, o)
	edits := make(chan config.Config)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx, edits) }()
	t.Cleanup(func() {
		cancel()
		expect.OK(t, <-done, "Run")
	})
	return r, edits
}

func settled(t *testing.T, r *Router) {
	t.Helper()
	r.Settled(t.Context())
}

// The signal comes with the change, also if the router does not run.
func TestChangedAtOnce(t *testing.T) {
	r := stocked(t, nil, "a")
	changed := r.Changed()
	replace(t, r, "a", registry.Offer{})
	if !signal.IsClosed(changed) {
		t.Error("the catalog changed without a signal")
	}
}

func TestRouter(t *testing.T) {
	pids := t.TempDir() + "/pids"
	browser := fake("browser", "-tools", "browser_navigate,browser_screenshot,browser_click", "-pid-file", pids)
	browser.Capabilities = []string{"mine"}
	browser.Tools = config.ToolFilter{Deny: []string{"*_click"}, Rename: map[string]string{"browser_navigate": "go_to"}}
	r, edits := running(t, Options{DataDir: t.TempDir()}, browser, fake("bad", "-exit"))
	settled(t, r)

	tools := r.FindByCapability("mine")
	if len(tools) != 2 || tools[0].ID != "browser:browser_screenshot" || tools[1].ID != "browser:go_to" {
		t.Fatalf("tools that bear the entry's tag: %v", tools)
	}
	expect.Equal(t, strings.Join(tools[1].Capabilities, " "), "browser mine navigation web", "tags of the renamed tool")
	sel, err := r.Select(t.Context(), selector.Query{Task: "Take a screenshot", Capabilities: []string{"browser", "screenshot"}})
	if err != nil || sel.Abstained || sel.Tool.ID != "browser:browser_screenshot" {
		t.Errorf("selected %+v, %v", sel, err)
	}
	result, err := r.Execute(t.Context(), selector.Call{Tool: tools[1], Arguments: json.RawMessage(`{"url":"x"}`)})
	if err != nil || result.IsError || !strings.Contains(string(result.JSON), `"tool_name":"browser_navigate"`) {
		t.Errorf("Execute = %s, %v", result.JSON, err)
	}
	for _, s := range r.Servers() {
		if s.Name == "browser" && (s.State != status.Ready || s.Tools != 2) {
			t.Errorf("status %+v", s)
		}
	}

	// An edit that concerns the tools alone keeps the process.
	changed := r.Changed()
	browser.Tools = config.ToolFilter{}
	edits <- config.Config{Servers: []config.Server{browser}}
	<-changed
	mcptest.WaitFor(t, "all tools of the edited entry", func() bool { return len(r.Snapshot().Offer("browser").Tools) == 3 })
	expect.Equal(t, len(mcptest.PIDs(t, pids)), 1, "processes of the server")
	edits <- config.Config{}
	mcptest.WaitFor(t, "the tools of removed servers to go", func() bool { return len(r.Snapshot().Tools()) == 0 })
}

// With the stored catalog tools are known without a process, and on demand a process starts at the
// first call.
func TestOnDemand(t *testing.T) {
	data, pids := t.TempDir(), t.TempDir()+"/pids"
	entry := fake("s", "-tools", "echo", "-pid-file", pids)
	first, _ := running(t, Options{DataDir: data, OnDemand: true}, entry)
	settled(t, first)
	first.writer.Saves.All()
	second, _ := running(t, Options{DataDir: data, OnDemand: true}, entry)
	if !second.Complete() {
		t.Fatal("the stored catalog is not known")
	}
	settled(t, second)
	expect.Equal(t, len(mcptest.PIDs(t, pids)), 1, "processes before the first call")
	tool, _ := second.Snapshot().Tool("s:echo")
	if result, err := second.Execute(t.Context(), selector.Call{Tool: tool}); err != nil || result.IsError {
		t.Errorf("Execute = %s, %v", result.JSON, err)
	}
	// Another entry of the same name is another server.
	other := fake("s", "-tools", "pid")
	third, _ := running(t, Options{DataDir: data, OnDemand: true}, other)
	if third.Complete() {
		t.Error("the tools of another entry are taken for this one's")
	}
}

// All items of a server are learned and stored, so that the next router knows them before anything
// runs.
func TestOfferIsStored(t *testing.T) {
	data := t.TempDir()
	entry := fake("s", "-tools", "echo", "-prompts", "greet", "-resources", "file:///harbour.txt")
	first, _ := running(t, Options{DataDir: data}, entry)
	settled(t, first)
	first.writer.Saves.All()
	second := New(config.Config{Servers: []config.Server{entry}}, Options{DataDir: data, Play: play.Server})
	for name, r := range map[string]*Router{"learned": first, "recalled": second} {
		s := r.Snapshot()
		expect.Equal(t, len(s.Items("s:greet")), 1, "%s: prompts %v", name, s.Prompts())
		expect.Equal(t, len(s.Items("s:file:///harbour.txt")), 1, "%s: resources %v", name, s.Resources())
		if o := s.Offer("s"); len(o.Tools) != 1 || !strings.Contains(string(o.Capabilities), "prompts") {
			t.Errorf("%s: %d tools, capabilities %s", name, len(o.Tools), o.Capabilities)
		}
	}
	found, err := first.selector.Find(t.Context(), selector.Query{Task: "harbour", Kinds: []string{"resource"}})
	if err != nil || found.Abstained || found.Candidates[0].Resource == nil {
		t.Errorf("found %+v, %v", found, err)
	}
}

// Offers that no router has used for months are removed from the disk; others stay.
func TestOldOffersAreRemoved(t *testing.T) {
	data := t.TempDir()
	const unused = 90 * 24 * time.Hour
	folder := filepath.Join(data, "catalog")
	expect.OK(t, os.MkdirAll(folder, 0o700))
	for name, age := range map[string]time.Duration{"old.tools": 2 * unused, "new.tools": unused / 2} {
		path := filepath.Join(folder, name)
		expect.OK(t, os.WriteFile(path, nil, 0o600))
		then := time.Now().Add(-age)
		expect.OK(t, os.Chtimes(path, then, then))
	}
	r, err := Start(t.Context(), config.Config{}, Options{DataDir: data})
	expect.OK(t, err)
	expect.OK(t, r.Close())
	if left, err := filepath.Glob(filepath.Join(folder, "*")); err != nil || len(left) != 1 || filepath.Base(left[0]) != "new.tools" {
		t.Errorf("left are %q, %v", left, err)
	}
}
