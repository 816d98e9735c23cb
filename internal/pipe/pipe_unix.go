//go:build unix

package pipe

import (
	"errors"
	"fmt"
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

func tryWrite(raw syscall.RawConn, p []byte) (n int, err error) {
	var failed error
	err = raw.Write(func(fd uintptr) bool {
		n, failed = unix.Write(int(fd), p)
		return true
	})
	if err == nil {
		err = failed
	}
	switch {
	case errors.Is(err, syscall.EAGAIN), errors.Is(err, syscall.EINTR):
		err = nil
	case err != nil:
		err = fmt.Errorf("write: %w", err)
	}
	return max(0, n), err
}
