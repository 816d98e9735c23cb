//go:build unix && !linux

package pipe

import "syscall"

// quickly reads or writes a non-blocking file.
func quickly(call, fd uintptr, p []byte) (n int, errno syscall.Errno) {
	var err error
	for again := true; again; again = err == syscall.EINTR {
		if call == syscall.SYS_READ {
			n, err = syscall.Read(int(fd), p)
		} else {
			n, err = syscall.Write(int(fd), p)
		}
	}
	if err != nil {
		errno, _ = err.(syscall.Errno)
		return 0, errno
	}
	return n, 0
}
