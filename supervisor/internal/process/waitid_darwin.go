package process

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// waitDead returns when the child is dead, and leaves it to be reaped. The
// constants are those of Darwin's sys/wait.h.
func waitDead(pid int) {
	const pPID, wExited, wNoWait = 1, 0x4, 0x20
	var siginfo [128]byte
	for {
		_, _, errno := unix.Syscall6(unix.SYS_WAITID, pPID, uintptr(pid), uintptr(unsafe.Pointer(&siginfo)), wExited|wNoWait, 0, 0)
		if errno != unix.EINTR {
			return
		}
	}
}
