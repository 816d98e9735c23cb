//go:build unix

package supervisor

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/layer"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// beRouter supervises the fake servers that its arguments describe, a comma
// between flags, and says when they are ready. It is killed.
func beRouter(servers []string) {
	l := &learner{learned: make(map[string]int), tools: make(map[string]string)}
	v := New(l, Options{Guard: guardCommand()}, zap.NewNop())
	configs := make(chan config.Config, 1)
	var c config.Config
	for i, flags := range servers {
		c.Servers = append(c.Servers, fake(fmt.Sprint("s", i), strings.Split(flags, ",")...))
	}
	configs <- c
	go v.Run(context.Background(), configs)
	for _, s := range c.Servers {
		if _, err := v.Session(context.Background(), s.Name, nil); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println("ready", v.starter.GuardPID())
	select {}
}

// startRouter starts a router in a process group of its own.
func startRouter(t *testing.T, servers ...string) (router *exec.Cmd, guard int) {
	t.Helper()
	self, _ := os.Executable()
	cmd := exec.Command(self, append([]string{"router"}, servers...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	expect.OK(t, err)
	expect.OK(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if _, scanErr := fmt.Sscanf(line, "ready %d", &guard); err != nil || scanErr != nil {
		t.Fatalf("the router said %q, %v", line, err)
	}
	return cmd, guard
}

func TestNoOrphanWhenKilled(t *testing.T) {
	layer.Integration(t)
	t.Parallel()
	for name, kill := range map[string]func(router *exec.Cmd){
		"SIGKILL": func(r *exec.Cmd) { r.Process.Kill() },
		"the whole group by SIGTERM": func(r *exec.Cmd) {
			syscall.Kill(-r.Process.Pid, syscall.SIGTERM)
		},
		"the whole group by SIGKILL": func(r *exec.Cmd) { syscall.Kill(-r.Process.Pid, syscall.SIGKILL) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pids := pidFile(t)
			router, guard := startRouter(t,
				"-pid-file,"+pids,
				"-ignore-eof,-ignore-term,-pid-file,"+pids,
				"-grandchild,-grandchild-setsid,-ignore-eof,-ignore-term,-pid-file,"+pids)
			kill(router)
			mcptest.Gone(t, pids, 5)
			mcptest.WaitFor(t, "the guard to end", func() bool { return !mcptest.Alive(guard) })
		})
	}
}

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
