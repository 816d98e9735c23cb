//go:build unix

package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/fakedocker"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// contained returns an entry that runs the fake server in a container, with options before "run"
// and after it.
func contained(t *testing.T, e *fakedocker.Engine, client, before, options string, flags ...string) map[string]any {
	command, args := mcptest.Command(flags...)
	all := append(strings.Fields(before), "run")
	all = append(append(all, strings.Fields(options)...), "example/image", command)
	return map[string]any{"command": fakedocker.Client(t, client), "args": append(all, args...), "env": map[string]string{"DOCKER_HOST": e.Host}}
}

// temporary gives the router a folder of its own for temporary files, and returns it.
func (s *setup) temporary() string {
	dir, err := os.MkdirTemp("", "mr") // short: sockets are made in it
	expect.OK(s.t, err)
	s.t.Cleanup(func() { os.RemoveAll(dir) })
	s.env = append(s.env, "TMPDIR="+dir)
	return dir
}

// A container ends with its server, although it ignores the end of its stdin and SIGTERM. It is removed
// only if it has --rm.
func TestContainersEnd(t *testing.T) {
	t.Parallel()
	stops := map[string]func(s *setup, c *mcptest.Client){
		"the client's leaving": func(_ *setup, c *mcptest.Client) { c.Close() },
		"SIGKILL":              func(_ *setup, c *mcptest.Client) { c.Cmd.Process.Kill() },
		"SIGKILL to its group": func(_ *setup, c *mcptest.Client) { c.SignalGroup(syscall.SIGKILL) },
		"the entry's removal":  func(s *setup, c *mcptest.Client) { s.write(entries{"other": fake()}, nil) },
	}
	for name, stop := range stops {
		routers := []string{"--standalone", "--log-level=info"}
		if strings.HasPrefix(name, "the ") {
			routers = routers[1:]
		}
		for _, router := range routers {
			t.Run(name+router, func(t *testing.T) {
				t.Parallel()
				e := fakedocker.NewEngine(t)
				s := prepare(t, entries{
					"docker":  contained(t, e, "docker", "", "-i --rm", "-ignore-eof", "-ignore-term"),
					"kept":    contained(t, e, "docker", "", "-i --name kept", "-ignore-eof", "-ignore-term"),
					"nerdctl": contained(t, e, "nerdctl", "--context far container", "-i --rm", "-ignore-eof"),
					"fine":    contained(t, e, "podman", "", "-i --rm"),
				}, nil)
				tmp := s.temporary()
				c := s.serve(router)
				for _, server := range []string{"docker", "kept", "nerdctl", "fine"} {
					mustCallWhenUp(t, c, server+":echo")
				}
				expect.Equal(t, len(e.Containers()), 4, "containers run")
				stop(s, c)
				mcptest.WaitFor(t, "the end of all containers but the one without --rm", func() bool {
					all := e.Containers()
					return len(all) == 1 && all[0].Name == "kept" && !all[0].Running
				})
				mcptest.WaitFor(t, "the removal of the files", func() bool { return filesWithIDs(tmp) == 0 })
				c.Close()
			})
		}
	}
}

func filesWithIDs(tmp string) int {
	found, _ := filepath.Glob(filepath.Join(tmp, "metarouter-container-*"))
	return len(found)
}

// A client that is killed is started again once its container has ended, so that a fixed name is free.
func TestContainerOfKilledClient(t *testing.T) {
	layer.Full(t)
	t.Parallel()
	e := fakedocker.NewEngine(t)
	entry := contained(t, e, "docker", "", "-i --rm --name fixed", "-ignore-eof", "-ignore-term", "-tools", "pid")
	s := prepare(t, entries{"s": entry}, nil)
	c := s.serve()
	first := mustCallWhenUp(t, c, "s:pid").text()
	id := e.Containers()[0].ID
	killClients(t, entry["command"].(string))
	mcptest.WaitFor(t, "another container", func() bool {
		raw, err := c.Call(within(t), "s:pid", json.RawMessage("{}"))
		return err == nil && !decode(t, raw).IsError && decode(t, raw).text() != first
	})
	if all := e.Containers(); len(all) != 1 || all[0].ID == id {
		t.Errorf("the containers are %+v", all)
	}
}

// killClients kills the processes of a client.
func killClients(t *testing.T, path string) {
	t.Helper()
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	killed := 0
	for _, name := range lines {
		line, _ := os.ReadFile(name)
		var pid int
		if fmt.Sscanf(name, "/proc/%d/", &pid); strings.HasPrefix(string(line), path+"\x00") && syscall.Kill(pid, syscall.SIGKILL) == nil {
			killed++
		}
	}
	if killed == 0 {
		t.Skip("the system has no /proc")
	}
}

// podmanOptions are options with which podman may run containers here: where the system allows all,
// and where it lets no program raise its limits.
var podmanOptions = [][]string{
	{"run", "--network", "none"},
	{"--runtime", "runc", "run", "--network", "host", "--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1000:1000"},
}

// podman returns the arguments with which podman runs the fake server, without its flags. It skips the
// test where podman does not run.
func podman(t *testing.T) (args []string) {
	t.Helper()
	dir, image := t.TempDir(), fmt.Sprintf("localhost/metarouter-test-%d", os.Getpid())
	build := exec.Command("go", "test", "-c", "-o", filepath.Join(dir, "fake"), "github.com/mcp-metarouter/metarouter/test/fakeserver")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	var said []string
	for _, cmd := range []*exec.Cmd{build, exec.Command("tar", "-C", dir, "-cf", filepath.Join(dir, "image.tar"), "fake"), exec.Command("podman", "import", filepath.Join(dir, "image.tar"), image)} {
		if out, err := cmd.CombinedOutput(); err != nil {
			said = append(said, fmt.Sprintf("%s: %v\n%s", cmd, err, out))
		}
	}
	t.Cleanup(func() { exec.Command("podman", "rmi", "-f", image).Run() })
	for _, options := range podmanOptions {
		args := append(slices.Clone(options), "-i", "--rm", image, "/fake", "mcptest-server")
		out, err := exec.Command("podman", args...).CombinedOutput() // which ends at once
		if err == nil {
			return args
		}
		said = append(said, fmt.Sprintf("podman %s: %v\n%s", strings.Join(options, " "), err, out))
	}
	why := "podman runs no container here\n" + strings.Join(said, "\n")
	if layer.Strict() {
		t.Fatal(why)
	}
	t.Skip(why)
	return nil
}

// Containers of podman, whose processes are descendants of the client on this machine, end as others
// do, and podman knows of it.
func TestContainersOfPodman(t *testing.T) {
	layer.Full(t)
	args := podman(t)
	at := slices.Index(args, "--rm")
	with := func(option string) map[string]any {
		all := slices.Concat(args[:at], strings.Fields(option), args[at+1:], []string{"-ignore-eof", "-ignore-term"})
		return map[string]any{"command": "podman", "args": all}
	}
	for name, stop := range map[string]func(c *mcptest.Client){
		"the client's leaving": func(c *mcptest.Client) { c.Close() },
		"SIGKILL":              func(c *mcptest.Client) { c.Cmd.Process.Kill() },
	} {
		t.Run(name, func(t *testing.T) {
			kept := "kept-" + filepath.Base(t.TempDir()) + fmt.Sprint(os.Getpid())
			t.Cleanup(func() { exec.Command("podman", "rm", "-f", kept).Run() })
			s := prepare(t, entries{"removed-" + kept: with("--rm"), "kept-" + kept: with("--name " + kept)}, nil)
			c := s.serve("--standalone")
			mustCallWhenUp(t, c, "removed-"+kept+":echo")
			mustCallWhenUp(t, c, "kept-"+kept+":echo")
			// states returns the servers' containers, and whether they are Up or Exited.
			states := func() string {
				out, err := exec.Command("podman", "ps", "-a", "--filter", "label=metarouter.server", "--format", `{{index .Labels "metarouter.server"}} {{.Status}}`).Output()
				expect.OK(t, err)
				var ours []string
				for line := range strings.Lines(string(out)) {
					if words := strings.Fields(line); strings.Contains(line, kept) {
						ours = append(ours, strings.Join(words[:2], " "))
					}
				}
				slices.Sort(ours)
				return strings.Join(ours, ", ")
			}
			expect.Equal(t, states(), "kept-"+kept+" Up, removed-"+kept+" Up", "the containers")
			stop(c)
			mcptest.WaitFor(t, "the end of the containers", func() bool { return states() == "kept-"+kept+" Exited" })
		})
	}
}
