//go:build unix

// Package filelock locks files between processes, for tests.
package filelock

import (
	"os"
	"syscall"
)

// Lock locks the file of this name, which it creates if necessary, until the file is
// closed or the process ends. If another process holds the lock, Lock waits for it, or
// returns an error if wait is false.
func Lock(name string, wait bool) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	how := syscall.LOCK_EX
	if !wait {
		how |= syscall.LOCK_NB
	}
	for {
		if err = syscall.Flock(int(f.Fd()), how); err != syscall.EINTR {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, &os.PathError{Op: "lock", Path: name, Err: err}
	}
	return f, nil
}
