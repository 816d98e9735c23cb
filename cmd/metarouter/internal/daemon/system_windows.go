package daemon

import (
	"errors"
	"io/fs"
	"net"
	"os/exec"
	"syscall"

	"golang.org/x/sys/windows"
)

// refused is the error about a socket that no process listens at.
const refused = windows.WSAECONNREFUSED

// HasSockets reports whether this system has Unix sockets: Windows has had them since 2018.
func HasSockets() bool {
	_, err := net.Dial("unix", ".")
	return !errors.Is(err, windows.WSAEAFNOSUPPORT)
}

// detach has the command run without a console: it outlives this process, and gets no Ctrl-C.
func detach(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.DETACHED_PROCESS | windows.CREATE_NEW_PROCESS_GROUP}
}

// isPrivate returns true: access lists close the user's folders to others, not modes.
func isPrivate(fs.FileInfo) bool { return true }
