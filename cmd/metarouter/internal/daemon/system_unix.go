//go:build unix

package daemon

import (
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// refused is the error about a socket that no process listens at.
const refused = unix.ECONNREFUSED

// HasSockets reports whether this system has Unix sockets.
func HasSockets() bool { return true }

// detach has the command run in a session of its own, without the files that were left
// open in this process: the command would keep them open for longer.
func detach(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	open, _ := os.ReadDir("/dev/fd")
	for _, f := range open {
		if fd, err := strconv.Atoi(f.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
}

// isPrivate reports whether the folder is this user's, and closed to others.
func isPrivate(folder fs.FileInfo) bool {
	st, ok := folder.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid() && folder.Mode().Perm()&0o077 == 0
}
