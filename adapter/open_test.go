package adapter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/inprocess"
	"github.com/mcp-metarouter/metarouter/internal/process"
	"github.com/mcp-metarouter/metarouter/selector"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
	"github.com/mcp-metarouter/metarouter/test/play"
)

// entry returns the entry of a fake server in a configuration.
func entry(flags ...string) map[string]any {
	command, args := mcptest.Command(flags...)
	return map[string]any{"command": command, "args": args}
}

// write writes a configuration of these entries at once.
func write(t *testing.T, path string, servers map[string]any) {
	t.Helper()
	text, err := json.Marshal(map[string]any{"mcpServers": servers})
	expect.OK(t, err)
	expect.OK(t, os.WriteFile(path+".new", text, 0o600))
	expect.OK(t, os.Rename(path+".new", path))
}

// An ID may have the configured prefix before it.
func TestToolBehindPrefix(t *testing.T) {
	c := config.Config{Servers: []config.Server{fake("s", "-tools", "echo")}}
	c.Router.Gateway.Prefix = "gw."
	c.Servers[0].StartTimeout = 0 // the default
	r, err := Start(t.Context(), c, Options{})
	expect.OK(t, err)
	defer r.Close()
	settled(t, r)
	for id, want := range map[string]bool{"s:echo": true, "gw.s:echo": true, "gx.s:echo": false, "gw.s:none": false, "gw.gw.s:echo": false} {
		if tool, ok := Tool(r, id); ok != want || ok != (tool != nil && tool.ID == "s:echo") {
			t.Errorf("Tool(%q) = %v, %v", id, tool, ok)
		}
	}
}

// A call under way at Close is answered with an error.
func TestOpenClosedDuringCall(t *testing.T) {
	r, err := Start(t.Context(), config.Config{Servers: []config.Server{fake("s", "-tools", "progress,hang")}}, Options{})
	expect.OK(t, err)
	settled(t, r)
	ended := make(chan selector.Result)
	go func() {
		result, _ := Execute(context.Background(), r, "s:hang", nil)
		ended <- result
	}()
	expect.OK(t, r.Await(t.Context(), "s"))
	expect.OK(t, r.Close())
	if result := <-ended; !result.IsError || result.Err == nil {
		t.Errorf("%s", result.JSON)
	}
}

func TestOpenEnds(t *testing.T) {
	for name, end := range map[string]func(*Router, context.CancelFunc) error{
		"with ctx":   func(_ *Router, cancel context.CancelFunc) error { cancel(); return nil },
		"with Close": func(r *Router, _ context.CancelFunc) error { return r.Close() },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		r, err := Start(ctx, config.Config{}, Options{})
		expect.OK(t, err)
		expect.OK(t, end(r, cancel))
		<-r.life.done
		expect.Equal(t, r.Health(t.Context()).State, Down, "%s", name)
		expect.OK(t, r.Close())
		cancel()
	}
	never := New(config.Config{}, Options{Play: play.Server})
	expect.OK(t, never.Close())
	if err := never.Run(t.Context(), nil); !errors.Is(err, inprocess.ErrClosed) {
		t.Errorf("Run after Close: %v", err)
	}
}

func TestOpenFails(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.json")
	expect.OK(t, os.WriteFile(bad, []byte(`{"mcpServers": {`), 0o600))
	for want, open := range map[string]func() (*Router, error){
		"no configuration file is named": func() (*Router, error) { return Open(t.Context(), Options{}) },
		"no such file":                   func() (*Router, error) { return Open(t.Context(), Options{}, bad+".not") },
		"bad.json:1":                     func() (*Router, error) { return Open(t.Context(), Options{}, bad) },
		"started by a router": func() (*Router, error) {
			t.Setenv(process.DepthVariable, "1")
			return Start(t.Context(), config.Config{}, Options{})
		},
	} {
		_, err := open()
		expect.Error(t, err, want)
		os.Unsetenv(process.DepthVariable)
	}
}

// The servers that come with metarouter need no metarouter, if the program embeds it.
func TestOpenBundled(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mcp.json")
	write(t, file, map[string]any{"utilities": map[string]any{"command": "metarouter", "args": []string{"builtin", "utilities"}}})
	r, err := Open(t.Context(), Embed(Options{}), file)
	expect.OK(t, err)
	defer r.Close()
	settled(t, r)
	result, err := Execute(t.Context(), r, "utilities:unit_convert", map[string]any{"value": 6, "from_unit": "ft", "to_unit": "m"})
	if err != nil || result.IsError || !strings.Contains(result.Text(), "1.8288") {
		t.Errorf("%s, %v", result.JSON, err)
	}

	t.Setenv("PATH", t.TempDir())
	without, err := Open(t.Context(), Options{}, file)
	expect.OK(t, err)
	defer without.Close()
	mcptest.WaitFor(t, "the configuration to be applied", func() bool { return without.Health(t.Context()).State != Starting })
	if h := without.Health(t.Context()); h.State != Down || !strings.Contains(h.Reason, `its command is "metarouter", which is not in the PATH`) {
		t.Errorf("%+v", h)
	}
	installed := filepath.Join(os.Getenv("PATH"), "metarouter")
	expect.OK(t, os.WriteFile(installed, []byte("#!/bin/sh\n"), 0o700))
	c, err := config.Load(file)
	expect.OK(t, err)
	if s := ownEntries(c, nil).Servers[0]; runtime.GOOS != "windows" && (s.Command != installed || strings.Join(s.Args, " ") != "builtin utilities") {
		t.Errorf("%+v", s)
	}
}

// A program that embeds a router and is killed leaves no server.
func TestEmbeddedIsKilled(t *testing.T) {
	dir := t.TempDir()
	file, pids := filepath.Join(dir, "mcp.json"), filepath.Join(dir, "pids")
	write(t, file, map[string]any{"s": entry("-pid-file", pids, "-ignore-eof", "-ignore-term", "-lifetime", "5m")})
	self, err := os.Executable()
	expect.OK(t, err)
	program := exec.Command(self, embedder, file)
	program.Stderr = os.Stderr
	out, err := program.StdoutPipe()
	expect.OK(t, err)
	expect.OK(t, program.Start())
	if ready, err := io.ReadAll(io.LimitReader(out, 6)); string(ready) != "ready\n" {
		t.Errorf("it says %q, %v", ready, err)
	}
	expect.OK(t, program.Process.Kill())
	program.Wait()
	mcptest.Gone(t, pids, 1)
}

// embedder, as its first argument, makes a test binary open a router of the file that
// is its second.
const embedder = "adapter-embedder"

func embedIfAsked(o Options) {
	if len(os.Args) < 3 || os.Args[1] != embedder {
		return
	}
	r, err := Open(context.Background(), o, os.Args[2])
	if err != nil {
		panic(err)
	}
	r.Settled(context.Background())
	fmt.Println("ready")
	time.Sleep(time.Hour)
}

// Helpers refuse unknown work.
func TestHelp(t *testing.T) {
	for _, args := range [][]string{nil, {"builtin"}, {"builtin", "nothing"}, {"dance"}} {
		if help(args) == nil {
			t.Errorf("%q is done", args)
		}
	}
}

// A program that has no more edits may close their channel. After its end, a router turns no server off or on.
func TestLastEdit(t *testing.T) {
	r, edits := running(t, Options{}, fake("s"))
	close(edits)
	settled(t, r)
	expect.OK(t, r.Await(t.Context(), "s"))
	expect.Equal(t, len(r.Config().Servers), 1, "servers after the last edit")
	expect.OK(t, r.Close())
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for _, on := range []bool{false, true} {
		if err := r.Turn(ctx, "s", on); err == nil || ctx.Err() != nil {
			t.Errorf("turned %v: %v", on, err)
		}
	}
}
