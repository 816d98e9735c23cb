//go:build unix

package supervisor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcp-metarouter/metarouter/internal/process"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

func TestStubbornServersAndTheirChildren(t *testing.T) {
	layer.Integration(t)
	t.Parallel()
	pids := pidFile(t)
	f := supervise(t,
		fake("stubborn", "-ignore-eof", "-ignore-term", "-pid-file", pids),
		fake("parent", "-grandchild", "-grandchild-setsid", "-pid-file", pids),
		fake("crasher", "-tools", "crash", "-grandchild", "-grandchild-setsid", "-pid-file", pids),
	)
	for _, name := range []string{"stubborn", "parent", "crasher"} {
		f.await(name, status.Ready)
	}
	first := mcptest.PIDs(t, pids)
	f.call("crasher", "crash", "{}")
	mcptest.WaitFor(t, "the crashed server to be back", func() bool { return f.state("crasher").Restarts == 1 && f.state("crasher").State == status.Ready })
	crashed := 0
	mcptest.WaitFor(t, "what the crashed server left to be gone", func() bool {
		crashed = 0
		for _, pid := range first {
			if !mcptest.Alive(pid) {
				crashed++
			}
		}
		return crashed == 3
	})
	f.stop()
	mcptest.Gone(t, pids, 10)
}

func TestEnvironment(t *testing.T) {
	layer.Integration(t)
	t.Setenv("SECRET_OF_ANOTHER", "x")
	t.Setenv("INHERITED", "yes")
	t.Setenv("HTTPS_PROXY", "http://proxy")
	entry := fake("s", "-tools", "env,cwd")
	entry.Env = map[string]string{"OWN": "1", process.DepthVariable: "7", "npm_config_@scope:registry": "x", "a.b": "y"}
	entry.InheritEnv = []string{"INHERITED"}
	entry.Cwd = t.TempDir()
	f := superviseWith(t, t.TempDir(), func(v *Supervisor) { v.starter.Play = nil }, entry)
	env := f.mustCall("s", "env", "{}")
	for _, want := range []string{"OWN=1", "npm_config_@scope:registry=x", "a.b=y", "INHERITED=yes", "HTTPS_PROXY=http://proxy", "PATH=", "HOME=", process.DepthVariable + "=1", process.MarkVariable + "="} {
		if !strings.Contains(env, want) {
			t.Errorf("%s is missing from the environment", want)
		}
	}
	if strings.Contains(env, "SECRET_OF_ANOTHER") {
		t.Error("the server got a variable that its entry does not name")
	}
	if got := f.mustCall("s", "cwd", "{}"); got != entry.Cwd {
		t.Errorf("working directory %s, want %s", got, entry.Cwd)
	}
}

// A restart during a start starts the server once more, not twice.
func TestRestartDuringAStart(t *testing.T) {
	layer.Integration(t)
	t.Parallel()
	entry := fake("s")
	begun := filepath.Join(t.TempDir(), "begun")
	entry.Args = append([]string{"-c", `[ -e "$0" ] && exec "$@"; touch "$0"; exec sleep 60`, begun, entry.Command}, entry.Args...)
	entry.Command = "sh"
	f := superviseProcesses(t, t.TempDir(), entry)
	mcptest.WaitFor(t, "the start to hang", func() bool { _, err := os.Stat(begun); return err == nil })
	if err := f.Restart(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	f.apply(entry, fake("other"))
	f.await("other", status.Ready) // by now another restart would have begun
	f.mustCall("s", "echo", `{"message": "x"}`)
	if n := f.starter.Started(); n != 3 {
		t.Errorf("%d processes were started, want 3: one that hung, its replacement and the other server", n)
	}
}
