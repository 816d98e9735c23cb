//go:build linux

package keeper

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// A container is stopped when its client has ended, and when the router has. What the client leaves
// behind lives until its container was stopped: it may be the container.
func TestContainerIsStopped(t *testing.T) {
	layer.Integration(t)
	const id = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for how, state := range map[string]string{
		"the client ends": "alive",
		"the router ends": "alive",
		"the router ends, that has started the client": "gone", // nothing is left
	} {
		t.Run(how, func(t *testing.T) {
			dir := t.TempDir()
			c := testContainer(t, dir)
			said := func() string { b, _ := os.ReadFile(filepath.Join(dir, "said")); return string(b) }
			// It is in a session of its own before the client is ready.
			leaves := "setsid sh -c 'echo $$ >left; exec sleep 600' & until [ -s left ]; do sleep 0.01; done; "
			client := "echo " + id + " >ids/id; echo >ready; exec sleep 600"
			g, l := startGuard(t), newTestLink(t)
			pid := 0
			if state == "gone" {
				cmd := exec.Command("/bin/sh", "-c", "cd "+dir+"; "+client)
				cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
				expect.OK(t, cmd.Start())
				t.Cleanup(func() { cmd.Wait() })
				g.send(t, Order{Watch: cmd.Process.Pid, Stop: c})
			} else {
				g.startClient(t, 1, l, "cd "+dir+"; "+leaves+client, c)
				pid = l.next(t).Value
			}
			mcptest.WaitFor(t, "the client", func() bool { _, err := os.Stat(filepath.Join(dir, "ready")); return err == nil })
			if how == "the client ends" {
				syscall.Kill(pid, syscall.SIGKILL)
				l.wantEnd(t)
			} else {
				g.Close() // as the router's death does
			}
			want := "stop -t 2 " + id + " " + state + "\nrm -f " + id + " " + state + "\n"
			mcptest.WaitFor(t, "the commands "+want, func() bool { return said() == want })
			mcptest.WaitFor(t, "the removal of the file", func() bool { _, err := os.Stat(filepath.Join(dir, "ids")); return err != nil })
			left, _ := os.ReadFile(filepath.Join(dir, "left"))
			mcptest.WaitFor(t, "the end of what the client has left", func() bool {
				line, _ := os.ReadFile("/proc/" + strings.TrimSpace(string(left)) + "/cmdline")
				return len(left) == 0 || !strings.Contains(string(line), "sleep")
			})
		})
	}
}

// A client that has made no container is no reason to start a command, and neither is a file that
// holds something else than an ID.
func TestContainerWithoutID(t *testing.T) {
	layer.Integration(t)
	dir := t.TempDir()
	c := testContainer(t, dir)
	if got := c.Stop(); got != nil {
		t.Errorf("without a file: %q", got)
	}
	for _, text := range []string{"", "\n", "-f", "name", "../x", "9", "db", "abc def", strings.Repeat("a", 12), strings.Repeat("a", 63), strings.Repeat("a", 65), strings.Repeat("A", 64), strings.Repeat("g", 64), strings.Repeat("a", 64) + "\nb"} {
		expect.OK(t, os.WriteFile(c.File, []byte(text), 0o600))
		if got := c.Stop(); got != nil {
			t.Errorf("%q: %q", text, got)
		}
	}
	os.Remove(c.File)
	expect.OK(t, syscall.Mkfifo(c.File, 0o600))
	if got := c.Stop(); got != nil {
		t.Errorf("a pipe: %q", got)
	}
	if got := (*Container)(nil).Stop(); got != nil {
		t.Errorf("no container: %q", got)
	}
}

// testContainer returns a container with an engine that notes in the file "said" what it is asked,
// and whether the process in the file "left" lives.
func testContainer(t *testing.T, dir string) *Container {
	t.Helper()
	engine, ids := filepath.Join(dir, "docker"), filepath.Join(dir, "ids")
	script := "#!/bin/sh\nstate=gone; kill -0 $(cat left) && state=alive; echo $* $state >>said\n"
	expect.OK(t, errors.Join(os.WriteFile(engine, []byte(script), 0o700), os.Mkdir(ids, 0o700)))
	return &Container{
		File: filepath.Join(ids, "id"), Remove: []string{filepath.Join(ids, "id"), ids},
		Path: engine, Dir: dir, Env: os.Environ(), Commands: [][]string{{"stop", "-t", "2"}, {"rm", "-f"}},
	}
}
