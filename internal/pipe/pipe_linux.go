package pipe

import (
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
