package daemon

import (
	"errors"
	"io"
)

// Local returns both ends of a connection in this process.
func Local() (ours, theirs *LocalConn) {
	a, b := &LocalConn{}, &LocalConn{}
	a.PipeReader, b.PipeWriter = io.Pipe()
	b.PipeReader, a.PipeWriter = io.Pipe()
	return a, b
}

// A LocalConn is one end of a connection in this process.
type LocalConn struct {
	*io.PipeReader
	*io.PipeWriter
}

// CloseWrite implements [Conn].
func (c *LocalConn) CloseWrite() error { return c.PipeWriter.Close() }

// Close implements [io.Closer].
func (c *LocalConn) Close() error { return errors.Join(c.PipeReader.Close(), c.PipeWriter.Close()) }
