package daemon

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/windows"
)

// lockFile locks a file, or fails with errLocked.
func lockFile(f *os.File) error {
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &windows.Overlapped{})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return errLocked
	}
	return err
}

// isRefused reports whether no process listens on the socket that was dialled.
func isRefused(err error) bool { return errors.Is(err, windows.WSAECONNREFUSED) }

// detach has the command run without a console: it outlives this process, and gets no Ctrl-C.
func detach(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.DETACHED_PROCESS | windows.CREATE_NEW_PROCESS_GROUP}
}

// isPrivate trusts that the user's own folders are closed to others: the mode does not
// say so here.
func isPrivate(fs.FileInfo) bool { return true }
