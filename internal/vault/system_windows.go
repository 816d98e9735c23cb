package vault

import (
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

func tryLock(f *os.File) error {
	return windows.LockFileEx(windows.Handle(f.Fd()), windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &windows.Overlapped{})
}

// unshared only checks that the file exists: the folder decides who can read it.
func unshared(path string) error {
	_, err := os.Stat(path)
	return err
}

func inode(fs.FileInfo) uint64 { return 0 }
