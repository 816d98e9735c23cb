package pipe

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// quickly reads or writes a non-blocking file. It uses a raw system call, which the Go scheduler
// does not see: the call returns at once, and for each ordinary call the scheduler would wake its
// monitor thread, at the cost of several thread switches. A signal does not interrupt a call that
// does not wait.
func quickly(call, fd uintptr, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(call, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}

// polled returns another file for the same pipe or socket, non-blocking, so that the Go runtime
// polls it; nil if that is impossible. The non-blocking flag belongs to the open file, which other
// processes may share. A pipe is therefore opened again; a socket is not shared, since its other
// end is another file.
func polled(f *os.File) *os.File {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil
	}
	var opened *os.File
	_ = raw.Control(func(fd uintptr) {
		var st unix.Stat_t
		flags, err := unix.FcntlInt(fd, unix.F_GETFL, 0)
		if err != nil || unix.Fstat(int(fd), &st) != nil {
			return
		}
		switch st.Mode & unix.S_IFMT {
		case unix.S_IFIFO:
			opened, _ = os.OpenFile(fmt.Sprintf("/proc/self/fd/%d", fd), flags&unix.O_ACCMODE|unix.O_NONBLOCK, 0)
		case unix.S_IFSOCK:
			own, err := unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 3)
			if err != nil {
				return
			}
			if unix.SetNonblock(own, true) != nil {
				unix.Close(own)
				return
			}
			opened = os.NewFile(uintptr(own), f.Name())
		}
	})
	return opened
}
