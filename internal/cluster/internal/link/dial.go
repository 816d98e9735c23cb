package link

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

const dialTimeout = 4 * time.Second

// A dialer has one connection at a time: nats.go does not close a connection after a failed login.
type dialer struct {
	ctx   context.Context
	count atomic.Uint64 // of attempts to connect

	mu   sync.Mutex // guards last
	last net.Conn
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
	d.last = c
	return c, nil
}

// close closes the connection that was made last.
func (d *dialer) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.last != nil {
		d.last.Close()
	}
}
