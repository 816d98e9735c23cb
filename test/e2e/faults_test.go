//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// A fault is one way in which a server misbehaves. It must not affect the good server that runs at
// the same time, and no process may remain.
type fault struct {
	flags []string
	entry map[string]any // more keys of the entry

	// lists is a tool of the server that must be listed, "" if none can be.
	lists string
	// call is the tool to call, "" for none. Its answer must contain says.
	call, says string
	fails      bool // the answer is an error that names the server
}

var faults = map[string]fault{
	"exits at once": {flags: []string{"-exit"}, call: "echo", says: "status 3", fails: true},
	"never answers initialize": {flags: []string{"-mute"}, entry: map[string]any{"startTimeout": "1s"},
		call: "echo", says: "not ready within 1s", fails: true},
	"never answers one call": {flags: []string{"-tools", "hang,echo"}, entry: map[string]any{"timeout": "1s"},
		lists: "bad__hang", call: "hang", says: "did not answer hang within 1s", fails: true},
	"noise on stdout":      {flags: []string{"-noise"}, lists: "bad__echo", call: "echo", says: "{}"},
	"flood on stderr":      {flags: []string{"-stderr-flood", "20000000"}, lists: "bad__echo", call: "echo", says: "{}"},
	"leaves grandchildren": {flags: []string{"-grandchild", "-grandchild-setsid", "-ignore-term"}, lists: "bad__echo", call: "echo", says: "{}"},
	"dies in mid-call": {flags: []string{"-tools", "crash,echo"}, lists: "bad__crash",
		call: "crash", says: "ended during the call", fails: true},
	"starts a router": {call: "echo", says: "router", fails: true},
}

func TestFaults(t *testing.T) {
	t.Parallel()
	for name, f := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pids := filepath.Join(t.TempDir(), "pids")
			bad := fake(append(f.flags, "-pid-file", pids)...)
			if name == "starts a router" {
				bad = map[string]any{"command": "sh", "args": []string{"-c", metarouter + ` serve --config "$0"`, "/dev/null"}}
			}
			for k, v := range f.entry {
				bad[k] = v
			}
			s := prepare(t, entries{"bad": bad, "good": fake("-tools", "echo,pid", "-pid-file", pids)}, nil)
			c := s.serve("--mode", "direct")

			mustCall(t, c, "good__echo", "{}")
			if f.lists != "" {
				mcptest.WaitFor(t, f.lists+" to be listed", func() bool { return slices.Contains(names(t, c), f.lists) })
			}
			if all := names(t, c); !slices.Contains(all, "good__echo") {
				t.Errorf("the good server's tools are not listed: %v", all)
			}
			pid := mustCall(t, c, "good__pid", "{}").text()
			if f.call != "" {
				r := call(t, c, "bad:"+f.call, "{}")
				text := r.text()
				if !strings.Contains(text, f.says) || r.IsError != f.fails || f.fails && !strings.Contains(text, `"bad"`) {
					t.Errorf("%s answered: %s", f.call, text)
				}
			}
			if again := mustCall(t, c, "good__pid", "{}").text(); again != pid {
				t.Error("the good server was restarted")
			}
			if err := c.Close(); err != nil {
				t.Errorf("the router after its client has left: %v\n%s", err, c.Stderr())
			}
			mcptest.Gone(t, pids, 1)
		})
	}
}

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

// A server that is killed runs again for the next call. The call in flight fails at once.
func TestKilledServerComesBack(t *testing.T) {
	t.Parallel()
	trace := filepath.Join(t.TempDir(), "trace")
	s := prepare(t, entries{"s": fake("-tools", "hang,pid", "-trace", trace)}, nil)
	c := s.serve()
	pid := mustCallWhenUp(t, c, "s:pid").text()
	answer := make(chan result, 1)
	go func() {
		raw, err := c.Call(within(t), "s:hang", json.RawMessage("{}"))
		if err != nil {
			t.Error(err)
		}
		answer <- decode(t, raw)
	}()
	mcptest.WaitFor(t, "the call in flight", func() bool { return count(trace, `"name":"hang"`) == 1 })
	var id int
	fmt.Sscan(pid, &id)
	syscall.Kill(id, syscall.SIGKILL)
	if r := <-answer; !r.IsError || !strings.Contains(r.text(), `server "s"`) || r.Meta["server"] != "s" {
		t.Errorf("the call in flight: %s", r.raw)
	}
	if after := mustCall(t, c, "s:pid", "{}").text(); after == pid {
		t.Error("the same process after it was killed")
	}
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
	if err := writeFile(s.config, `{"mcpServers": {`); err != nil {
		t.Fatal(err)
	}
	mcptest.WaitFor(t, "the bad edit to be reported", func() bool { return strings.Contains(c.Stderr(), "mcp.json:1:") })
	if again := mustCall(t, c, "stays__pid", "{}").text(); again != pid {
		t.Error("the server that was not edited was restarted")
	}
}

// Commands ask the router that runs with the same configuration.
func TestCommandsAskTheRunningRouter(t *testing.T) {
	t.Parallel()
	state, pids := filepath.Join(t.TempDir(), "starts"), filepath.Join(t.TempDir(), "pids")
	s := prepare(t, entries{
		"s":      fake("-tools", "pid", "-pid-file", pids),
		"broken": fake("-crash-at-start-times", "5", "-exit-on-unknown", "-state", state),
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
	if _, err := c.Initialize(within(t)); err != nil {
		t.Fatal(err)
	}
	mustCall(t, c, "one__echo", "{}")
	s.write(entries{"one": fake("-tools", "echo"), "two": fake("-tools", "echo")}, nil)
	mcptest.WaitFor(t, "the edit to be refused", func() bool { return strings.Contains(c.Stderr(), "not trusted") })
	if got := fmt.Sprint(names(t, c)); got != "[one__echo]" {
		t.Errorf("listed %s before the edit was trusted", got)
	}
	if out, err := metarouterIn("trust"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	mcptest.WaitFor(t, "the trusted edit to be used", func() bool { return len(names(t, c)) == 2 })
}
