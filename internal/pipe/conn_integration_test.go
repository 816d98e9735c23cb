package pipe

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"testing"
	"time"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/layer"
)

// connect returns both ends of a connection; the first is one of Listen's.
func connect(t *testing.T) (accepted, dialled net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	expect.OK(t, err)
	defer l.Close()
	dialled, err = net.Dial("tcp", l.Addr().String())
	expect.OK(t, err)
	accepted, err = Listen(l).Accept()
	expect.OK(t, err)
	t.Cleanup(func() {
		accepted.Close()
		dialled.Close()
	})
	return accepted, dialled
}

func TestConn(t *testing.T) {
	layer.Integration(t)
	c, peer := connect(t)
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<18) // more than the system buffers
	sent := make(chan error, 2)
	go func() {
		_, err := peer.Write(data)
		peer.(*net.TCPConn).CloseWrite()
		sent <- err
	}()
	if got, err := io.ReadAll(c); err != nil || !bytes.Equal(got, data) {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
	go func() {
		_, err := c.Write(data)
		c.Close()
		sent <- err
	}()
	if got, err := io.ReadAll(peer); err != nil || !bytes.Equal(got, data) {
		t.Errorf("wrote %d bytes, %v", len(got), err)
	}
	for range 2 {
		expect.OK(t, <-sent)
	}
}

// Errors are those of a connection, which net/http acts on.
func TestConnErrors(t *testing.T) {
	layer.Integration(t)
	c, peer := connect(t)
	c.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	_, err := c.Read(make([]byte, 1))
	if e, ok := errors.AsType[net.Error](err); !ok || !e.Timeout() || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after the deadline: %v", err)
	}
	c.SetReadDeadline(time.Time{})
	read := make(chan error, 1)
	go func() {
		_, err := c.Read(make([]byte, 1))
		read <- err
	}()
	c.SetReadDeadline(time.Unix(1, 0)) // as net/http ends a read
	if err := <-read; !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a deadline during a read: %v", err)
	}
	c.SetReadDeadline(time.Time{})
	peer.(*net.TCPConn).SetLinger(0)
	peer.Close()
	if _, err := c.Read(make([]byte, 1)); err == nil || err == io.EOF {
		t.Errorf("a connection that was reset: %v", err)
	}
	c.Close()
	if _, err := c.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a closed one: %v", err)
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a closed one: %v", err)
	}
}
