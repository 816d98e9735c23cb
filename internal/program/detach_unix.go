//go:build unix

package program

import (
	"os/exec"
	"syscall"
)

// Detach has the command start in a session of its own, away from the terminal, and has the
// whole session's group killed when the command's context ends. On Windows it does nothing.
func Detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
