package pipe

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

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
