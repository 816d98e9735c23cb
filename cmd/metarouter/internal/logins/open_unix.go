//go:build unix

package logins

import (
	"os/exec"
	"runtime"
	"syscall"
)

// opener returns the command that opens the page that follows it.
func opener() []string {
	if runtime.GOOS == "darwin" {
		return []string{"/usr/bin/open"}
	}
	return []string{"xdg-open"}
}

// detach gives the program a session of its own, so that Ctrl-C here does not end the browser.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
