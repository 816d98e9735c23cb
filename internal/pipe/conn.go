package pipe

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

// Listen returns the listener with connections that are read and written as an [End] is, if the
// system supports that.
func Listen(l net.Listener) net.Listener { return listener{l} }

type listener struct{ net.Listener }

// Accept implements [net.Listener].
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return c, nil
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return c, nil
	}
	made := &conn{TCPConn: tcp}
	if made.read, made.write = attempts(raw); made.read == nil {
		return c, nil
	}
	return made, nil
}

// A conn is a connection for many short messages. One goroutine at a time may read, and one
// may write.
type conn struct {
	*net.TCPConn
	read, write *attempt
}

// Read implements [io.Reader].
func (c *conn) Read(p []byte) (int, error) {
	n, err := readBy(c.read, c.TCPConn, p)
	return n, c.error("read", err)
}

// Write implements [io.Writer].
func (c *conn) Write(p []byte) (int, error) {
	n, err := writeBy(c.write, c.TCPConn, p)
	return n, c.error("write", err)
}

// error turns the error of an attempt into the error of a connection, for net/http.
func (c *conn) error(op string, err error) error {
	if _, ok := errors.AsType[*net.OpError](err); ok {
		return err
	}
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return err // nil or io.EOF
	}
	return &net.OpError{Op: op, Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: os.NewSyscallError(op, errno)}
}

var _ io.ReaderFrom = (*conn)(nil) // as [net.TCPConn] is, to send files
