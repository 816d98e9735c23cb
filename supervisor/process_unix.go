//go:build unix

package supervisor

import (
	"os/exec"
	"sync"
	"syscall"
)

// A tree is a child with its process group, whose id is the child's own.
type tree struct {
	group int

	// mu guards reaped. While it is held and reaped is false, the group's id
	// can't have come to mean another group.
	mu     sync.Mutex
	reaped bool
}

// start starts the command such that the guard knows of it before it executes.
func (t *tree) start(cmd *exec.Cmd, g *guard) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	open, shut, err := gate(cmd, g)
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
// again, so that is when the rest of its group is killed and struck off.
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

// detach keeps the command away from the terminal, and has all that it starts
// killed with it when its context ends.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
