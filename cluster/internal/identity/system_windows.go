package identity

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// tryLock locks an open file, unless it is locked by another name.
func tryLock(f *os.File) (bool, error) {
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &windows.Overlapped{})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return false, nil
	}
	return err == nil, err
}

// unshared only checks that the file exists: the folder decides who can read it.
func unshared(path string) error {
	_, err := os.Stat(path)
	return err
}
