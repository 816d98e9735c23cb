package keeper

import (
	"encoding/binary"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Constants of Darwin's sys/wait.h.
const pAll, pPID = 0, 1

// WaitDead returns when the child is dead, and leaves it to be reaped.
func WaitDead(pid int) { waitid(pPID, pid) }

// waitAny returns a dead child, and leaves it to be reaped; false if there is no child.
func waitAny() (pid int, ok bool) { return waitid(pAll, 0) }

func waitid(kind, id int) (pid int, ok bool) {
	const wExited, wNoWait = 0x4, 0x20
	var siginfo [128]byte
	for {
		_, _, errno := unix.Syscall6(unix.SYS_WAITID, uintptr(kind), uintptr(id), uintptr(unsafe.Pointer(&siginfo)), wExited|wNoWait, 0, 0)
		if errno != unix.EINTR {
			return int(binary.NativeEndian.Uint32(siginfo[12:])), errno == 0
		}
	}
}
