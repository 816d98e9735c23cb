package pipe

import (
	"errors"
	"net"
	"os"
	"syscall"
)

// Listen returns the listener with connections as [Conn] returns them.
func Listen(l net.Listener) net.Listener { return listener{l} }

type listener struct{ net.Listener }

// Accept implements [net.Listener].
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return Conn(c), nil
}

// Conn returns the connection, read and written as an [End] is, if the system supports that. One
// goroutine at a time may read, and one may write.
func Conn(c net.Conn) net.Conn {
	stream, ok := c.(stream)
	if !ok {
		return c
	}
	raw, err := stream.SyscallConn()
	if err != nil {
		return c
	}
	read, write := attempts(raw)
	if read == nil {
		return c
	}
	return &conn{stream, read, write}
}

// A stream is a [*net.TCPConn] or a [*net.UnixConn].
type stream interface {
	net.Conn
	syscall.Conn
	CloseWrite() error
}

// A conn is a connection for many short messages.
type conn struct {
	stream
	read, write *attempt
}

// Read implements [io.Reader].
func (c *conn) Read(p []byte) (int, error) {
	n, err := readBy(c.read, c.stream, p)
	return n, c.error("read", err)
}

// Write implements [io.Writer].
func (c *conn) Write(p []byte) (int, error) {
	n, err := writeBy(c.write, c.stream, p)
	return n, c.error("write", err)
}

// HasReader reports whether the other end is open.
func (c *conn) HasReader() bool { return hasReader(c.stream) }

// error turns the error of an attempt into the error of a connection, for net/http.
func (c *conn) error(op string, err error) error {
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return err
	}
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return err // nil or io.EOF
	}
	return &net.OpError{Op: op, Net: c.LocalAddr().Network(), Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: os.NewSyscallError(op, errno)}
}
