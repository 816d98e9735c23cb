//go:build unix

package supervisor

import (
	"syscall"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

func TestGuardComesBack(t *testing.T) {
	layer.Integration(t)
	t.Parallel()
	pids := pidFile(t)
	f := superviseProcesses(t, t.TempDir(), fake("s", "-ignore-eof", "-pid-file", pids))
	f.await("s", status.Ready)
	first := f.starter.GuardPID()
	syscall.Kill(first, syscall.SIGKILL)
	mcptest.WaitFor(t, "a new guard", func() bool { pid := f.starter.GuardPID(); return pid != first && mcptest.Alive(pid) })
	f.stop()
	mcptest.Gone(t, pids, 1)
}

// A stopped guard does not keep the router from ending.
func TestStoppedGuard(t *testing.T) {
	layer.Integration(t)
	t.Parallel()
	f := superviseProcesses(t, t.TempDir(), fake("s"))
	f.await("s", status.Ready)
	syscall.Kill(f.starter.GuardPID(), syscall.SIGSTOP)
	ended := make(chan struct{})
	go func() { defer close(ended); f.stop() }()
	if !signal.Within(ended, time.Minute) {
		t.Error("Run has not returned")
		syscall.Kill(f.starter.GuardPID(), syscall.SIGCONT)
	}
}

// With killStrays false in its entry, a server's strays outlive it.
func TestKeptStrays(t *testing.T) {
	layer.Integration(t)
	t.Parallel()
	for _, keep := range []bool{false, true} {
		pids := pidFile(t)
		entry := fake("s", "-grandchild", "-grandchild-setsid", "-pid-file", pids)
		entry.KeepStrays = keep
		f := superviseProcesses(t, t.TempDir(), entry)
		f.await("s", status.Ready)
		f.stop()
		left := 0
		for _, pid := range mcptest.PIDs(t, pids) {
			if mcptest.Alive(pid) {
				left++
				syscall.Kill(pid, syscall.SIGKILL)
			}
		}
		expect.Equal(t, left, map[bool]int{true: 1}[keep], "keep strays %v: processes are left", keep)
	}
}
