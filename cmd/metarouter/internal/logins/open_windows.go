package logins

import (
	"os/exec"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/windows"
)

// opener returns the command that opens the page that follows it.
func opener() []string {
	system, err := windows.GetSystemDirectory()
	if err != nil {
		system = ""
	}
	return []string{filepath.Join(system, "rundll32.exe"), "url.dll,FileProtocolHandler"}
}

// detach keeps Ctrl-C here from ending the browser.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
}
