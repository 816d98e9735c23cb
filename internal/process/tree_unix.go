//go:build unix

package process

import (
	"errors"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/keeper"
	"github.com/mcp-metarouter/metarouter/internal/signal"
)

// A tree is a server's first process with all that descends from it. The process has a
// group of its own, which has the process's id. It is a child of the guard process; or
// of this process, if no guard process runs.
type tree struct {
	guard *guard
	mark  string
	group int
	holds *Container    // that the process is the client of; may be nil
	gone  chan struct{} // closed when all that the process has left is dead, as far as the guard process knows

	link *link         // to the guard process; nil for a child of this process
	lead keeper.Leader // with link
	lost atomic.Bool   // the guard process has ended before the server

	cmd *exec.Cmd // without link
	// mu guards reaped. While it is held and reaped is false, no other group can
	// have the id of a group that this process has started.
	mu     sync.Mutex
	reaped bool
}

// start starts the process. The guard process knows of it before it executes.
func (t *tree) start(l launch, g *guard) (pid int, err error) {
	t.guard, t.mark, t.holds, t.gone = g, l.mark, l.Container, make(chan struct{})
	if g != nil {
		t.group, t.link, err = g.start(l.order(), l.stdin, l.stdout, l.stderr)
		if err == nil {
			t.lead = keeper.Lead(t.group)
			return t.group, nil
		}
		if !errors.Is(err, errNoGuard) {
			return 0, err
		}
		keeper.KillMarked(l.mark) // the guard process may have started it before it ended
	}
	t.cmd = l.command()
	t.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := t.cmd.Start(); err != nil {
		return 0, err
	}
	t.group = t.cmd.Process.Pid
	g.add(t.group, t.holds)
	return t.group, nil
}

// wait returns when the process is reaped and its group is dead.
func (t *tree) wait() exit {
	if t.link == nil {
		return t.waitForChild()
	}
	r, err := t.link.next()
	if err != nil || r.Kind != keeper.Exited {
		return t.waitAlone()
	}
	return exitOf(syscall.WaitStatus(r.Value))
}

// follow returns when the guard process has killed the processes that the process has left, or has
// ended; stopped says that it has stopped the process's container first. wait must have returned.
func (t *tree) follow() (stopped bool) {
	defer close(t.gone)
	if t.link == nil {
		return false
	}
	if !t.lost.Load() {
		if r, err := t.link.next(); err != nil || r.Kind != keeper.Gone {
			t.lost.Store(true)
		}
	}
	t.link.conn.Close()
	return !t.lost.Load()
}

// waitForChild reaps a child. Between its death and its reaping its id can't be used
// again, so the rest of its group is killed and struck off in between.
func (t *tree) waitForChild() exit {
	keeper.WaitDead(t.group)
	t.signal(syscall.SIGKILL, keeper.LinkKill)
	t.guard.remove(t.group)
	t.mu.Lock()
	t.reaped = true
	t.mu.Unlock()
	t.cmd.Wait()
	status, _ := t.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return exitOf(status)
}

// waitAlone waits for the process when the guard process has ended: it is not known how
// the process ends then.
func (t *tree) waitAlone() exit {
	t.lost.Store(true)
	t.guard.add(t.group, t.holds)
	for look := time.NewTicker(20 * time.Millisecond); !t.lead.Ended(); <-look.C {
	}
	t.signal(syscall.SIGKILL, keeper.LinkKill)
	t.guard.remove(t.group)
	return exit{-1, "an unknown cause: the process guard had ended before"}
}

func (t *tree) terminate() { t.signal(syscall.SIGTERM, keeper.LinkTerm) }

func (t *tree) signal(s syscall.Signal, command byte) {
	switch {
	case t.link == nil:
		t.mu.Lock()
		defer t.mu.Unlock()
		if !t.reaped {
			syscall.Kill(-t.group, s)
		}
	case !t.lost.Load():
		t.link.conn.SetWriteDeadline(time.Now().Add(guardTimeout))
		t.link.conn.Write([]byte{command}) // fails if the guard process has ended, which wait sees
	case t.lead.Alive():
		syscall.Kill(-t.group, s)
	}
}

// kill kills the process with its group. It makes wait return although the guard process hangs.
func (t *tree) kill(exited <-chan struct{}) {
	t.signal(syscall.SIGKILL, keeper.LinkKill)
	if t.link == nil || signal.Within(exited, guardTimeout) {
		return
	}
	if t.lead.Alive() {
		syscall.Kill(-t.group, syscall.SIGKILL)
	}
	if !signal.Within(exited, guardTimeout) && t.lead.Ended() {
		t.guard.replace()
	}
}

// killLeft returns when the processes that the process has left are dead.
func (t *tree) killLeft() {
	if !signal.Within(t.gone, guardTimeout) || t.link == nil || t.lost.Load() {
		keeper.KillMarked(t.mark)
	}
}

// detach has the command start in a session of its own, away from the terminal, and has the
// whole session's group killed when the command's context ends.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

func exitOf(status syscall.WaitStatus) exit {
	if !status.Signaled() {
		return exit{code: status.ExitStatus()}
	}
	text := "signal: " + status.Signal().String()
	if status.CoreDump() {
		text += " (core dumped)"
	}
	return exit{-1, text}
}
