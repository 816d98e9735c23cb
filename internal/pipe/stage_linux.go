package pipe

import (
	"syscall"

	"golang.org/x/sys/unix"
)

const canSplice = true

// splice moves at most n bytes, without waiting. As in quickly, the system call is a raw one.
func splice(from, to, n uintptr) (int, syscall.Errno) {
	moved, _, errno := syscall.RawSyscall6(unix.SYS_SPLICE, from, 0, to, 0, n, unix.SPLICE_F_NONBLOCK)
	if errno != 0 {
		return 0, errno
	}
	return int(moved), 0
}

// unread returns how many bytes are in the pipe.
func unread(fd uintptr) int {
	n, _ := unix.IoctlGetInt(int(fd), unix.TIOCINQ)
	return n
}
