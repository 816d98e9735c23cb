package e2e

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// A client's process passes on SIGHUP, and ends by SIGTERM when its servers have.
func TestSharedSignals(t *testing.T) {
	t.Parallel()
	s := prepare(t, entries{"one": fake("-tools", "echo,pid")}, map[string]any{"mode": "direct"})
	a, b := s.serve("--no-watch"), s.serve("--no-watch")
	s.write(entries{"one": fake("-tools", "echo,pid"), "two": fake("-tools", "echo")}, map[string]any{"mode": "direct"})
	a.Cmd.Process.Signal(syscall.SIGHUP)
	mcptest.WaitFor(t, "the other client to see it", func() bool { return slices.Contains(names(t, b), "two__echo") })
	pid, _ := strconv.Atoi(mustCall(t, b, "one__pid", "{}").text())
	for _, c := range []*mcptest.Client{a, b} {
		c.Cmd.Process.Signal(syscall.SIGTERM)
		<-c.Done
		expect.Equal(t, c.Cmd.ProcessState.ExitCode(), 0, "exit code …\n%s", c.Stderr())
	}
	if pid > 0 && mcptest.Alive(pid) || s.host() != 0 {
		t.Error("the server or the router is alive")
	}
}

// A second signal ends a client's process, though the router does not answer.
func TestSharedEndsAtTheSecondSignal(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	s := prepare(t, entries{"s": fake("-tools", "echo")}, map[string]any{"mode": "direct"})
	c := s.serve()
	var host int
	mcptest.WaitFor(t, "the shared router", func() bool { host = s.host(); return host > 0 })
	syscall.Kill(host, syscall.SIGSTOP)
	defer syscall.Kill(host, syscall.SIGKILL)
	ended := func() bool {
		select {
		case <-c.Done:
			return true
		default:
			return false
		}
	}
	c.Cmd.Process.Signal(syscall.SIGTERM)
	time.Sleep(100 * time.Millisecond)
	if ended() {
		t.Error("the first signal ends the process before the servers")
	}
	mcptest.WaitFor(t, "the end of the process", func() bool { c.Cmd.Process.Signal(syscall.SIGTERM); return ended() })
}

// A client goes on with the configuration that it had if its file is broken when the router is
// killed.
func TestSharedKeepsTheConfiguration(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	s := prepare(t, entries{"s": fake("-tools", "echo")}, map[string]any{"mode": "direct"})
	c := s.serve()
	expect.OK(t, os.WriteFile(s.config, []byte(`{"mcpServers": {`), 0o600))
	s.kill(syscall.SIGKILL)
	expect.Contains(t, mustCall(t, c, "s__echo", `{"text":"after"}`).text(), "after", "echo after: %s", c.Stderr())
	os.Remove(filepath.Join(s.dir, "data", "crashes.log")) // where routers say that they can't read the file
}

// A server has no file of the shared router but its streams: with the router's socket it could take
// over clients.
func TestServersOfASharedRouterHaveNoSocket(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	s := prepare(t, entries{"s": fake("-tools", "pid")}, map[string]any{"mode": "direct"})
	pid := mustCall(t, s.serve(), "s__pid", "{}").text()
	if s.host() == 0 {
		t.Fatal("there is no shared router")
	}
	files, err := filepath.Glob("/proc/" + pid + "/fd/*")
	if err != nil || len(files) < 3 {
		t.Fatalf("files %q of the server %q: %v", files, pid, err)
	}
	for _, file := range files {
		if name, _ := os.Readlink(file); strings.HasPrefix(name, "socket:") {
			t.Errorf("the server has %s as file %s", name, filepath.Base(file))
		}
	}
}
