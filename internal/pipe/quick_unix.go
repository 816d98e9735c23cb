//go:build unix && !linux

package pipe

import "syscall"

// quickly reads or writes a non-blocking file.
func quickly(call, fd uintptr, p []byte) (n int, errno syscall.Errno) {
	act := syscall.Read
	if call == syscall.SYS_WRITE {
		act = syscall.Write
	}
	for {
		n, err := act(int(fd), p)
		if errno, _ := err.(syscall.Errno); errno != syscall.EINTR {
			return max(n, 0), errno
		}
	}
}
