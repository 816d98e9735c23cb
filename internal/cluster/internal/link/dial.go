package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	dialTimeout  = 4 * time.Second
	writeNow     = 2 * time.Millisecond // how long a write may wait for the network
	writeTimeout = 10 * time.Second     // of the bytes of one write that wait
	maxBacklog   = 64 << 20             // bytes
)

var errBacklog = fmt.Errorf("the connection to NATS takes too little: %d MiB wait", maxBacklog>>20)

// A dialer makes connections with a Write that does not wait, since nats.go writes holding a lock
// that all senders need. It has one connection at a time: nats.go does not close a connection after
// a failed login.
type dialer struct {
	ctx   context.Context
	count atomic.Uint64 // of attempts to connect

	mu   sync.Mutex // guards last
	last *conn
}

// Dial implements [nats.CustomDialer].
func (d *dialer) Dial(network, address string) (net.Conn, error) {
	d.count.Add(1)
	d.close()
	c, err := (&net.Dialer{Timeout: dialTimeout}).DialContext(d.ctx, network, address)
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.last = &conn{Conn: c}
	return d.last, nil
}

// close closes the connection that was made last, and waits for its goroutine.
func (d *dialer) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last != nil {
		d.last.Close()
		d.last.writer.Wait()
	}
}

// A conn writes as many bytes as the network takes at once, and has a goroutine write the rest.
type conn struct {
	net.Conn
	writer sync.WaitGroup

	mu      sync.Mutex // guards the following
	backlog []byte
	writing bool  // the goroutine runs
	err     error // why no byte is written any more
}

// Write implements [net.Conn].
func (c *conn) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return 0, c.err
	}
	n := 0
	if !c.writing {
		c.Conn.SetWriteDeadline(time.Now().Add(writeNow))
		var err error
		if n, err = c.Conn.Write(b); err == nil {
			return n, nil
		} else if !errors.Is(err, os.ErrDeadlineExceeded) {
			c.err = err
			return n, err
		}
	}
	if len(c.backlog)+len(b)-n > maxBacklog {
		c.err = errBacklog
		return n, c.err
	}
	c.backlog = append(c.backlog, b[n:]...)
	if !c.writing {
		c.writing = true
		c.writer.Go(c.write)
	}
	return len(b), nil
}

func (c *conn) write() {
	for b := c.take(); len(b) > 0; b = c.take() {
		c.Conn.SetWriteDeadline(time.Now().Add(writeTimeout))
		if _, err := c.Conn.Write(b); err != nil {
			c.fail(err)
			c.Conn.Close() // so that its reader sees it
			return
		}
	}
}

// maxWrite bounds the bytes that are written at once, so that a slow network meets the deadline.
const maxWrite = 256 << 10

func (c *conn) take() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(len(c.backlog), maxWrite)
	b := c.backlog[:n:n]
	c.backlog = c.backlog[n:]
	c.writing = n > 0
	if n == 0 {
		c.backlog = nil // a large one is not kept
	}
	return b
}

func (c *conn) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
}

// Close implements [net.Conn]. The backlog is dropped.
func (c *conn) Close() error {
	c.fail(net.ErrClosed)
	return c.Conn.Close()
}

// SetDeadline implements [net.Conn]. Writes have deadlines of their own.
func (c *conn) SetDeadline(t time.Time) error { return c.Conn.SetReadDeadline(t) }

// SetWriteDeadline implements [net.Conn].
func (c *conn) SetWriteDeadline(time.Time) error { return nil }
