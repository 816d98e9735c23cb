//go:build unix

package supervisor

import (
	"os"
	"os/exec"
	"sync"
	"syscall"
)

// gate has a shell wait for a line on descriptor 3 and then become the command,
// so that the guard knows the process before it executes. If the router dies in
// between, the end of file makes the shell go away.
const gate = `read -r go <&3 && exec "$@" 3<&-`

// A tree is a child with its process group, whose id is the child's own.
type tree struct {
	group int

	// mu guards reaped. While it is held and reaped is false, the group's id
	// can't have come to mean another group.
	mu     sync.Mutex
	reaped bool
}

func (t *tree) start(cmd *exec.Cmd, g *guard, mark string) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if g == nil {
		err := cmd.Start()
		if err == nil {
			t.group = cmd.Process.Pid
		}
		return err
	}
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	defer w.Close()
	cmd.ExtraFiles = []*os.File{r}
	cmd.Args = append([]string{"sh", "-c", gate, "sh", cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	err = cmd.Start()
	r.Close()
	if err != nil {
		return err
	}
	t.group = cmd.Process.Pid
	g.add(t.group, mark)
	_, err = w.WriteString("\n")
	return err
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
