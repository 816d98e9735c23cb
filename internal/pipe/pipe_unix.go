//go:build unix

package pipe

import (
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// immediate returns the file's connection for reads and writes that do not wait, nil if the file
// blocks.
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

// hasReader reports whether the other end is open, without waiting. A file that is no pipe or
// socket always has a reader.
func hasReader(f syscall.Conn) bool {
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	there := false
	err = raw.Control(func(fd uintptr) {
		state := []unix.PollFd{{Fd: int32(fd)}}
		_, err := unix.Poll(state, 0)
		there = err == nil && state[0].Revents&(unix.POLLERR|unix.POLLHUP|unix.POLLNVAL) == 0
	})
	return err == nil && there
}

// An attempt is a read or a write of a file. It is used again for each call, one at a time, so
// that a call allocates nothing.
type attempt struct {
	wait  func(func(fd uintptr) bool) error
	call  uintptr
	p     []byte
	n     int
	errno syscall.Errno
	do    func(fd uintptr) bool
}

// attempts returns the attempts for a file, nil if raw is nil.
func attempts(raw syscall.RawConn) (read, write *attempt) {
	if raw == nil {
		return nil, nil
	}
	read = &attempt{wait: raw.Read, call: syscall.SYS_READ}
	read.do = func(fd uintptr) bool {
		read.n, read.errno = quickly(read.call, fd, read.p)
		return read.errno != syscall.EAGAIN // on EAGAIN the runtime waits and calls again
	}
	write = &attempt{wait: raw.Write, call: syscall.SYS_WRITE}
	write.do = func(fd uintptr) bool {
		write.n, write.errno = quickly(write.call, fd, write.p)
		return true
	}
	return read, write
}

// try makes the attempt.
func (a *attempt) try(p []byte) (n int, err error) {
	a.p = p
	err = a.wait(a.do)
	a.p = nil
	switch {
	case err != nil:
		return 0, errNotTried
	case a.errno != 0 && a.errno != syscall.EAGAIN:
		return 0, a.errno
	}
	return a.n, nil
}

// tryRead waits until it can read at least one byte.
func tryRead(a *attempt, p []byte) (int, error) {
	n, err := a.try(p)
	switch {
	case err == errNotTried: // as at the deadline that ends each of net/http's requests
		return 0, err
	case err != nil:
		return 0, fmt.Errorf("read: %w", err)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// tryWrite writes as much as possible without waiting.
func tryWrite(a *attempt, p []byte) (int, error) {
	n, err := a.try(p)
	if err != nil {
		return 0, fmt.Errorf("write: %w", err)
	}
	return n, nil
}
