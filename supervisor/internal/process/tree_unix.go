//go:build unix

package process

import (
	"os/exec"
	"sync"
	"syscall"
)

// A tree is a child with its process group, whose id is the child's own.
type tree struct {
	group int

	// mu guards reaped. While it is held and reaped is false, no other group can
	// have the group's id.
	mu     sync.Mutex
	reaped bool
}

// start starts the command such that the guard knows of it before it executes.
func (t *tree) start(cmd *exec.Cmd, g *guard) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	open, shut, err := shim(cmd, g)
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		shut()
		return err
	}
	t.group = cmd.Process.Pid
	g.add(t.group)
	open()
	return nil
}

// wait reaps the child. Between its death and its reaping its id can't be used
// again, so the rest of its group is killed and struck off in between.
func (t *tree) wait(cmd *exec.Cmd, g *guard) {
	waitDead(t.group)
	t.kill()
	g.remove(t.group)
	t.mu.Lock()
	t.reaped = true
	t.mu.Unlock()
	cmd.Wait()
}

func (t *tree) terminate() { t.signal(syscall.SIGTERM) }
func (t *tree) kill()      { t.signal(syscall.SIGKILL) }

func (t *tree) signal(s syscall.Signal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.reaped {
		syscall.Kill(-t.group, s)
	}
}

// detach starts the command in a session of its own, away from the terminal, and
// kills the whole session's group when the command's context ends.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
