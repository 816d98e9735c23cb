// Package filelock locks files between processes, for tests.
package filelock

import (
	"os"

	"golang.org/x/sys/windows"
)

// Lock locks the file of this name, which it creates if necessary, until the file is
// closed or the process ends. If another process holds the lock, Lock waits for it, or
// returns an error if wait is false.
func Lock(name string, wait bool) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	how := uint32(windows.LOCKFILE_EXCLUSIVE_LOCK)
	if !wait {
		how |= windows.LOCKFILE_FAIL_IMMEDIATELY
	}
	if err := windows.LockFileEx(windows.Handle(f.Fd()), how, 0, 1, 0, &windows.Overlapped{}); err != nil {
		f.Close()
		return nil, &os.PathError{Op: "lock", Path: name, Err: err}
	}
	return f, nil
}
