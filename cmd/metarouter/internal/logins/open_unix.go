//go:build unix

package logins

import (
	"os/exec"
	"runtime"
	"syscall"
)

// openers returns command lines that open the page, the best first.
func openers(page string, getenv func(string) string) [][]string {
	all := named(page, getenv)
	if runtime.GOOS == "darwin" {
		return append(all, []string{"/usr/bin/open", page})
	}
	return append(all, []string{"xdg-open", page}, []string{"x-www-browser", page})
}

// detach gives the program a session of its own, so that Ctrl-C here does not end the browser.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }
