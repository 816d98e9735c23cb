//go:build unix

package pipe

import (
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// immediate returns the way to write to the file without waiting, nil if there is
// none.
func immediate(f *os.File) syscall.RawConn {
	raw, err := f.SyscallConn()
	if err != nil {
		return nil
	}
	flags := 0
	if raw.Control(func(fd uintptr) { flags, err = unix.FcntlInt(fd, unix.F_GETFL, 0) }) != nil || err != nil || flags&unix.O_NONBLOCK == 0 {
		return nil
	}
	return raw
}

// tryRead waits until there is something to read.
func tryRead(raw syscall.RawConn, p []byte) (n int, err error) {
	var errno syscall.Errno
	err = raw.Read(func(fd uintptr) bool {
		n, errno = quickly(syscall.SYS_READ, fd, p)
		return errno != syscall.EAGAIN
	})
	switch {
	case err != nil:
		return 0, errNotTried
	case errno != 0:
		return 0, fmt.Errorf("read: %w", errno)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

func tryWrite(raw syscall.RawConn, p []byte) (n int, err error) {
	var errno syscall.Errno
	err = raw.Write(func(fd uintptr) bool {
		n, errno = quickly(syscall.SYS_WRITE, fd, p)
		return true
	})
	switch {
	case err != nil:
		return 0, fmt.Errorf("write: %w", errNotTried)
	case errno != 0 && errno != syscall.EAGAIN:
		return 0, fmt.Errorf("write: %w", errno)
	}
	return n, nil
}
