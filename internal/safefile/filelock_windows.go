package safefile

import (
	"os"

	"golang.org/x/sys/windows"
)

// TryLock locks an open file until it is closed. It returns false if the file is locked already, by another
// process or by this one under another name.
func TryLock(f *os.File) (bool, error) {
	err := windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &windows.Overlapped{})
	if err == windows.ERROR_LOCK_VIOLATION {
		return false, nil
	}
	return err == nil, os.NewSyscallError("LockFileEx", err)
}
