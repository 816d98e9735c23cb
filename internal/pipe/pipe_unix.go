//go:build unix

package pipe

import (
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// A quick reads and writes a file by system calls that do not wait, as long as these suffice.
type quick struct {
	file io.ReadWriter
	raw  syscall.RawConn // nil if the file blocks
}

func quickOf(f interface {
	io.ReadWriter
	syscall.Conn
}) quick {
	q := quick{file: f}
	raw, err := f.SyscallConn()
	if err != nil {
		return q
	}
	flags := 0
	if raw.Control(func(fd uintptr) { flags, err = unix.FcntlInt(fd, unix.F_GETFL, 0) }) == nil && err == nil && flags&unix.O_NONBLOCK != 0 {
		q.raw = raw
	}
	return q
}

// read waits until it can read at least one byte.
func (q quick) read(p []byte) (n int, err error) {
	if q.raw == nil || len(p) == 0 {
		return q.file.Read(p)
	}
	var errno syscall.Errno
	err = q.raw.Read(func(fd uintptr) bool {
		n, errno = quickly(syscall.SYS_READ, fd, p)
		return errno != syscall.EAGAIN // then the runtime waits and calls again
	})
	switch {
	case err != nil: // it is closed, or too late, as at the deadline that ends each of net/http's requests
		return q.file.Read(p)
	case errno != 0:
		return 0, os.NewSyscallError("read", errno)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// write waits until all is written.
func (q quick) write(p []byte) (int, error) {
	n, err := q.tryWrite(p)
	if n == len(p) || err != nil {
		return n, err
	}
	rest, err := q.file.Write(p[n:])
	return n + rest, err
}

// tryWrite writes as much as possible without waiting.
func (q quick) tryWrite(p []byte) (n int, err error) {
	if q.raw == nil {
		return 0, nil
	}
	var errno syscall.Errno
	err = q.raw.Write(func(fd uintptr) bool {
		n, errno = quickly(syscall.SYS_WRITE, fd, p)
		return true
	})
	switch {
	case err != nil: // it is closed, or too late
		return q.file.Write(nil)
	case errno != 0 && errno != syscall.EAGAIN:
		return 0, os.NewSyscallError("write", errno)
	}
	return n, nil
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
		// A signal, such as one of Go's scheduler, interrupts only a look that has found nothing.
		there = err == unix.EINTR || err == nil && state[0].Revents&(unix.POLLERR|unix.POLLHUP|unix.POLLNVAL) == 0
	})
	return err == nil && there
}
