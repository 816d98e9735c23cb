package process

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// waitDead returns when the child is dead, and leaves it to be reaped.
func waitDead(pid int) {
	for unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil) == unix.EINTR {
	}
}

// waitAny returns a dead child, and leaves it to be reaped; false if there is no child.
func waitAny() (pid int, ok bool) {
	// The beginning of the kernel's siginfo_t, whose union is aligned as a pointer is.
	var info struct {
		_   [3]int32
		_   [unsafe.Sizeof(uintptr(0)) - 4]byte
		PID int32
		_   [128]byte
	}
	for {
		err := unix.Waitid(unix.P_ALL, 0, (*unix.Siginfo)(unsafe.Pointer(&info)), unix.WEXITED|unix.WNOWAIT, nil)
		if err != unix.EINTR {
			return int(info.PID), err == nil
		}
	}
}
