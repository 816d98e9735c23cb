package natsserver

import (
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"
)

// RelayOptions say how slow a relay is.
type RelayOptions struct {
	Delay      time.Duration // of each segment, in both directions
	StallShare float64       // the share of segments that take Stall longer, and all that follow them
	Stall      time.Duration
}

// A Relayed is an address whose connections lead to another address.
type Relayed struct {
	options  RelayOptions
	to       string
	listener net.Listener
	tasks    sync.WaitGroup

	mu          sync.Mutex // guards the following
	connections map[net.Conn]bool
	open        chan struct{} // closed while the relay is not cut
	closed      bool
}

// Relay starts a relay to an address, which ends with the test.
func Relay(t testing.TB, to string, o RelayOptions) *Relayed {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &Relayed{options: o, to: to, listener: listener, connections: make(map[net.Conn]bool), open: make(chan struct{})}
	close(r.open)
	r.tasks.Go(r.accept)
	t.Cleanup(r.close)
	return r
}

// Address is the host and port of the relay.
func (r *Relayed) Address() string { return r.listener.Addr().String() }

// URL is the address as clients of NATS write it.
func (r *Relayed) URL() string { return "nats://" + r.Address() }

// Cut holds all bytes until Heal. Connections stay, as in a network that loses all packets.
func (r *Relayed) Cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.open:
		r.open = make(chan struct{})
	default:
	}
}

// Heal ends Cut.
func (r *Relayed) Heal() {
	r.mu.Lock()
	defer r.mu.Unlock()
	select {
	case <-r.open:
	default:
		close(r.open)
	}
}

// Reset closes all connections. New ones are accepted.
func (r *Relayed) Reset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.connections {
		c.Close()
	}
}

func (r *Relayed) close() {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.listener.Close()
	r.Heal()
	r.Reset()
	r.tasks.Wait()
}

// passable returns a channel that is closed while the relay is not cut.
func (r *Relayed) passable() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.open
}

func (r *Relayed) accept() {
	for {
		c, err := r.listener.Accept()
		if err != nil {
			return
		}
		r.tasks.Go(func() { r.serve(c) })
	}
}

// hold adds a connection to those that Reset closes. It reports whether the relay is still open.
func (r *Relayed) hold(c net.Conn) (open bool, release func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.connections[c] = true
	return !r.closed, func() {
		c.Close()
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.connections, c)
	}
}

// serve carries a connection.
func (r *Relayed) serve(near net.Conn) {
	open, release := r.hold(near)
	defer release()
	<-r.passable()
	far, err := net.DialTimeout("tcp", r.to, patience)
	if err != nil || !open {
		return
	}
	open, releaseFar := r.hold(far)
	defer releaseFar()
	if !open {
		return
	}
	var both sync.WaitGroup
	for _, way := range [][2]net.Conn{{near, far}, {far, near}} {
		both.Go(func() {
			r.carry(way[0], way[1])
			way[0].Close()
			way[1].Close()
		})
	}
	both.Wait()
}

// A segment is bytes that are due at a time.
type segment struct {
	data []byte
	due  time.Time
}

// carry copies from one connection to another, each segment after its delay.
func (r *Relayed) carry(from io.Reader, to net.Conn) {
	segments := make(chan segment, 1024)
	var reader sync.WaitGroup
	reader.Go(func() {
		defer close(segments)
		for {
			buffer := make([]byte, 32<<10)
			n, err := from.Read(buffer)
			if n > 0 {
				segments <- segment{buffer[:n], time.Now().Add(r.options.Delay)}
			}
			if err != nil {
				return
			}
		}
	})
	for s := range segments {
		time.Sleep(time.Until(s.due))
		if rand.Float64() < r.options.StallShare {
			time.Sleep(r.options.Stall)
		}
		<-r.passable()
		if _, err := to.Write(s.data); err != nil {
			break
		}
	}
	to.Close()
	if c, ok := from.(net.Conn); ok {
		c.Close() // ends the reader
	}
	for range segments { //nolint:revive // so that the reader is not held up
	}
	reader.Wait()
}
