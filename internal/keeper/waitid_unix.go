//go:build unix

package keeper

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Constants of the system's wait.h.
const pAll, pPID = 0, 1

// WaitDead returns when the child is dead, and leaves it to be reaped.
func WaitDead(pid int) { waitid(pPID, pid) }

// waitAny returns a dead child, and leaves it to be reaped; false if there is no child.
func waitAny() (pid int, ok bool) { return waitid(pAll, 0) }

func waitid(kind, id int) (pid int, ok bool) {
	var siginfo [128]byte
	for {
		_, _, errno := unix.Syscall6(unix.SYS_WAITID, uintptr(kind), uintptr(id), uintptr(unsafe.Pointer(&siginfo)), unix.WEXITED|unix.WNOWAIT, 0, 0)
		if errno != unix.EINTR {
			return int(binary.NativeEndian.Uint32(siginfo[siginfoPID:])), errno == 0
		}
	}
}
