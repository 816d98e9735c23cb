package pipe

import (
	"net"
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
	if s, ok := c.(stream); ok {
		return &conn{s, quickOf(s)}
	}
	return c
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
	quick quick
}

// Read implements [io.Reader].
func (c *conn) Read(p []byte) (int, error) { return c.quick.read(p) }

// Write implements [io.Writer].
func (c *conn) Write(p []byte) (int, error) { return c.quick.write(p) }

// HasReader reports whether the other end is open.
func (c *conn) HasReader() bool { return hasReader(c.stream) }
