package keeper

import (
	"syscall"
	"unsafe"
)

// Package syscall does not have these calls, and golang.org/x/sys/unix, which has them, is
// initialised too late: see the package's documentation. The first two have the same numbers
// on all architectures but MIPS, where the kernel does not know these.
const (
	sysPidfdSendSignal = 424
	sysPidfdOpen       = 434

	prSetChildSubreaper = 36
	pAll, pPID          = 0, 1 // of waitid
)

// pidfdOpen returns a descriptor of the process.
func pidfdOpen(pid int) (fd int, err error) {
	r, _, errno := syscall.Syscall(sysPidfdOpen, uintptr(pid), 0, 0)
	if errno != 0 {
		return -1, errno
	}
	return int(r), nil
}

// pidfdSendSignal sends a signal to the process of the descriptor; 0 only looks whether it
// exists.
func pidfdSendSignal(fd int, signal syscall.Signal) error {
	return failure(syscall.Syscall6(sysPidfdSendSignal, uintptr(fd), uintptr(signal), 0, 0, 0, 0))
}

// prlimit sets a limit of the process to after, unless it is nil, and stores the one before
// in before, unless it is nil. pid 0 is this process.
func prlimit(pid, resource int, after, before *syscall.Rlimit) error {
	return failure(syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), uintptr(resource), uintptr(unsafe.Pointer(after)), uintptr(unsafe.Pointer(before)), 0, 0))
}

// prctl sets an attribute of this process.
func prctl(option, value uintptr) error {
	return failure(syscall.RawSyscall6(syscall.SYS_PRCTL, option, value, 0, 0, 0, 0))
}

// waitid waits until a child is dead, any one or the one with the id, and leaves it to be reaped.
func waitid(kind, id int) (pid int, err error) {
	// The beginning of the kernel's siginfo_t. Its union is aligned as a pointer is.
	var info struct {
		_   [3]int32
		_   [unsafe.Sizeof(uintptr(0)) - 4]byte
		PID int32
		_   [128]byte
	}
	for {
		err := failure(syscall.Syscall6(syscall.SYS_WAITID, uintptr(kind), uintptr(id), uintptr(unsafe.Pointer(&info)), syscall.WEXITED|syscall.WNOWAIT, 0, 0))
		if err != syscall.EINTR {
			return int(info.PID), err
		}
	}
}

// failure returns the error of a system call.
func failure(_, _ uintptr, errno syscall.Errno) error {
	if errno != 0 {
		return errno
	}
	return nil
}
