package logins

import (
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/windows"
)

// openers returns command lines that open the page, the best first.
func openers(page string, getenv func(string) string) [][]string {
	system, err := windows.GetSystemDirectory()
	if err != nil {
		system = ""
	}
	return append(named(page, getenv), []string{filepath.Join(system, "rundll32.exe"), "url.dll,FileProtocolHandler", page})
}

// detach keeps Ctrl-C here from ending the browser.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
}
