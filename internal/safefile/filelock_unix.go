//go:build unix

package safefile

import (
	"os"

	"golang.org/x/sys/unix"
)

// TryLock locks an open file until it is closed. It returns false if the file is locked already, by another
// process or by this one under another name.
func TryLock(f *os.File) (bool, error) {
	for {
		switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err {
		case nil, unix.EWOULDBLOCK:
			return err == nil, nil
		case unix.EINTR:
		default:
			return false, os.NewSyscallError("flock", err)
		}
	}
}
