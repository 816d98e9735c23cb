//go:build unix

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

func TestNoOrphanWhenKilled(t *testing.T) {
	t.Parallel()
	kills := map[string]func(c *mcptest.Client){
		"SIGTERM":                 func(c *mcptest.Client) { c.Cmd.Process.Signal(syscall.SIGTERM) },
		"SIGKILL":                 func(c *mcptest.Client) { c.Cmd.Process.Kill() },
		"SIGKILL to its group":    func(c *mcptest.Client) { c.SignalGroup(syscall.SIGKILL) },
		"SIGKILL while it starts": func(c *mcptest.Client) { c.Cmd.Process.Kill() },
	}
	for name, kill := range kills {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pids := filepath.Join(t.TempDir(), "pids")
			servers := entries{
				"stubborn": fake("-ignore-eof", "-ignore-term", "-pid-file", pids),
				"parent":   fake("-grandchild", "-grandchild-setsid", "-ignore-eof", "-ignore-term", "-pid-file", pids),
				"wrapped":  nil,
				"fine":     fake("-pid-file", pids),
			}
			inner := fake("-ignore-eof", "-pid-file", pids)
			servers["wrapped"] = map[string]any{"command": "sh", "args": append([]string{"-c", `"$@"; true`, "sh", inner["command"].(string)}, inner["args"].([]string)...)}
			s := prepare(t, servers, nil)
			c := s.serve()
			if name != "SIGKILL while it starts" {
				for server := range servers {
					mustCallWhenUp(t, c, server+":echo")
				}
			}
			kill(c)
			<-c.Done
			mcptest.Gone(t, pids, 0)
			time.Sleep(200 * time.Millisecond) // for processes that were starting
			mcptest.Gone(t, pids, 0)
		})
	}
}

// mustCallWhenUp calls a tool of a server whose tools may not be known yet.
func mustCallWhenUp(t *testing.T, c *mcptest.Client, tool string) result {
	t.Helper()
	var r result
	mcptest.WaitFor(t, tool+" to answer", func() bool {
		raw, err := c.Call(within(t), tool, json.RawMessage("{}"))
		if err == nil {
			r = decode(t, raw)
		}
		return err == nil && !r.IsError
	})
	return r
}

// An edit changes what it says and nothing else. A bad one is reported and changes nothing.
func TestHotReload(t *testing.T) {
	t.Parallel()
	servers := entries{"stays": fake("-tools", "pid")}
	s := prepare(t, servers, nil)
	c := s.serve("--mode", "direct")
	pid := mustCall(t, c, "stays__pid", "{}").text()

	changed := func(what, want string) {
		t.Helper()
		saved := time.Now()
		s.write(servers, nil)
		deadline := time.After(2 * time.Minute)
		for {
			select {
			case n := <-c.Notifications:
				if n.Method == "notifications/tools/list_changed" && fmt.Sprint(names(t, c)) == want {
					t.Logf("%s: the client was notified after %v", what, time.Since(saved))
					return
				}
			case <-deadline:
				t.Fatalf("%s: listed %v, want %s\n%s", what, names(t, c), want, c.Stderr())
			}
		}
	}
	servers["new"] = fake("-tools", "echo")
	changed("a server was added", "[new__echo stays__pid]")
	servers["new"] = fake("-tools", "sleep")
	changed("it was edited", "[new__sleep stays__pid]")
	servers["new"]["tools"] = map[string]any{"rename": map[string]string{"sleep": "nap"}}
	changed("its tool was renamed", "[new__nap stays__pid]")
	if r := mustCall(t, c, "new__nap", `{"ms":1}`); r.Meta["tool_name"] != "sleep" {
		t.Errorf("_meta.tool_name is %v", r.Meta["tool_name"])
	}
	delete(servers, "new")
	changed("it was removed", "[stays__pid]")
	expect.OK(t, writeFile(s.config, `{"mcpServers": {`))
	mcptest.WaitFor(t, "the bad edit to be reported", func() bool { return strings.Contains(c.Stderr(), "mcp.json:1:") })
	expect.Equal(t, mustCall(t, c, "stays__pid", "{}").text(), pid, "the server that was not edited was restarted")
}

// Commands ask the router that runs with the same configuration.
func TestCommandsAskTheRunningRouter(t *testing.T) {
	t.Parallel()
	state, pids := filepath.Join(t.TempDir(), "starts"), filepath.Join(t.TempDir(), "pids")
	s := prepare(t, entries{
		"s":      fake("-tools", "pid", "-pid-file", pids),
		"broken": fake("-crash-at-start-times", "1000", "-exit-on-unknown", "-state", state),
	}, nil)
	c := s.serve("--mode", "direct")
	pid := mustCall(t, c, "s__pid", "{}").text()
	mcptest.WaitFor(t, "the broken server to fail", func() bool { return s.states()["broken"].State != "starting" })
	if st := s.states()["s"]; st.State != "ready" || st.Tools != 1 {
		t.Errorf("servers says %+v", st)
	}
	findings, ok, code := s.diagnose()
	if ok || code != 1 || len(findings["broken"]) != 1 {
		t.Errorf("doctor says %q: ok %v, exit code %d", findings, ok, code)
	}
	if again := mustCall(t, c, "s__pid", "{}").text(); again != pid || len(mcptest.PIDs(t, pids)) != 1 {
		t.Errorf("doctor has started a server that runs: %v", mcptest.PIDs(t, pids))
	}
	out, stderr, code := s.run("restart", "s")
	if code != 0 || !strings.Contains(out, "ready") {
		t.Errorf("restart: exit code %d, %s%s", code, out, stderr)
	}
	if again := mustCall(t, c, "s__pid", "{}").text(); again == pid {
		t.Error("the same process after a restart")
	}
	expect.OK(t, os.WriteFile(state, bytes.Repeat([]byte("start\n"), 1000), 0o600))
	mcptest.WaitFor(t, "restarts to fix the broken server", func() bool {
		_, _, code := s.run("restart", "broken")
		return code == 0
	})
	if _, stderr, code := s.run("restart", "unknown"); code != 2 || !strings.Contains(stderr, `no server is named "unknown"`) {
		t.Errorf("restart of no server: exit code %d, %s", code, stderr)
	}
	c.Close()
	if _, stderr, _ := s.run("restart", "s"); !strings.Contains(stderr, "no router runs") {
		t.Errorf("restart without a router: %s", stderr)
	}
}

// A found and trusted file that is edited waits for the edit to be trusted.
func TestEditOfAFoundFile(t *testing.T) {
	t.Parallel()
	s := prepare(t, entries{"one": fake("-tools", "echo")}, nil)
	s.config = filepath.Join(s.dir, ".mcp.json")
	s.write(entries{"one": fake("-tools", "echo")}, nil)
	data := filepath.Join(s.dir, "data")
	metarouterIn := func(args ...string) ([]byte, error) {
		cmd := exec.Command(metarouter, append(args, "--data", data)...)
		cmd.Dir = s.dir
		return cmd.CombinedOutput()
	}
	if out, err := metarouterIn("trust"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c := mcptest.Start(t, metarouter, []string{"serve", "--mode", "direct", "--data", data}, s.dir, nil)
	_, err := c.Initialize(within(t))
	expect.OK(t, err)
	mustCall(t, c, "one__echo", "{}")
	s.write(entries{"one": fake("-tools", "echo"), "two": fake("-tools", "echo")}, nil)
	mcptest.WaitFor(t, "the edit to be refused", func() bool { return strings.Contains(c.Stderr(), "not trusted") })
	expect.Equal(t, fmt.Sprint(names(t, c)), "[one__echo]", "listed … before the edit was trusted")
	if out, err := metarouterIn("trust"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	mcptest.WaitFor(t, "the trusted edit to be used", func() bool { return len(names(t, c)) == 2 })
}
