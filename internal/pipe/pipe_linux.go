package pipe

import (
	"fmt"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// quickly reads or writes a file on which neither waits. The scheduler is not told:
// there is nothing that it could do meanwhile, and it would wake its watchdog, at
// the price of several switches from thread to thread for every message. A signal
// interrupts nothing that does not wait.
func quickly(call, fd uintptr, p []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(call, fd, uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), 0
}

// enlarge has the pipe hold more.
func enlarge(f *os.File) bool {
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	ok := false
	err = raw.Control(func(fd uintptr) {
		_, err := unix.FcntlInt(fd, unix.F_SETPIPE_SZ, enlarged)
		ok = err == nil
	})
	return ok && err == nil
}

// polled returns another file for the same pipe or socket that the runtime polls,
// nil if there is none. Whether reading and writing waits is said of the open file,
// which other processes may share: a pipe is opened anew; a socket is ours alone,
// since its other end is another file.
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
