package login

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/net/netutil"
)

const (
	// maxConnections is how many connections a listener serves at once; others wait.
	maxConnections = 16
	// loopbackTime bounds the reading of a request, and idle connections.
	loopbackTime = 10 * time.Second
	// partingTime is how long a page may take to reach the browser when its login is done.
	partingTime = 5 * time.Second
)

// loopbacks listen on ports of this machine, on each while a login that comes back there is
// pending. The zero value with serve is ready.
type loopbacks struct {
	serve func(port int, w http.ResponseWriter, r *http.Request)

	work sync.WaitGroup // servers
	mu   sync.Mutex     // guards open
	open map[int]*loopback
}

// A loopback listens on a port.
type loopback struct {
	server    *http.Server
	listeners []net.Listener
	logins    int // that come back to it

	mu     sync.Mutex        // guards silent
	silent map[net.Conn]bool // connections without a request: browsers open them in advance
}

// note keeps which connections have no request yet.
func (o *loopback) note(c net.Conn, state http.ConnState) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if state == http.StateNew {
		o.silent[c] = true
		return
	}
	delete(o.silent, c)
}

// close ends connections, those with a request when they are answered.
func (o *loopback) close() {
	o.mu.Lock()
	for c := range o.silent {
		c.Close()
	}
	o.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), partingTime)
	defer cancel()
	if o.server.Shutdown(ctx) != nil {
		o.server.Close()
	}
}

// acquire listens on the port, 0 for any, until release is called as often. It returns the port.
func (l *loopbacks) acquire(port int) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if o := l.open[port]; o != nil {
		o.logins++
		return port, nil
	}
	listeners, port, err := listen(port)
	if err != nil {
		return 0, err
	}
	o := &loopback{listeners: listeners, logins: 1, silent: make(map[net.Conn]bool)}
	o.server = &http.Server{
		Handler:           http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { l.serve(port, w, r) }),
		ReadTimeout:       loopbackTime,
		ReadHeaderTimeout: loopbackTime,
		WriteTimeout:      exchangeTime + loopbackTime,
		IdleTimeout:       loopbackTime,
		MaxHeaderBytes:    64 << 10,
		ConnState:         o.note,
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	o.server.SetKeepAlivesEnabled(false)
	for _, listener := range listeners {
		l.work.Go(func() { _ = o.server.Serve(netutil.LimitListener(listener, maxConnections)) })
	}
	if l.open == nil {
		l.open = make(map[int]*loopback)
	}
	l.open[port] = o
	return port, nil
}

// release is the end of a login that came back to the port; 0 is no port. The last one closes the
// listener, and its page still reaches the browser.
func (l *loopbacks) release(port int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	o := l.open[port]
	if o == nil {
		return
	}
	if o.logins--; o.logins > 0 {
		return
	}
	delete(l.open, port)
	for _, listener := range o.listeners {
		listener.Close() // the port is free
	}
	l.work.Go(o.close)
}

// wait waits until nothing listens. All logins have ended.
func (l *loopbacks) wait() { l.work.Wait() }

// listen listens on both loopback addresses, since "localhost" may be either.
func listen(port int) (listeners []net.Listener, chosen int, err error) {
	const tries = 10
	for range tries {
		four, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			return nil, 0, err
		}
		chosen = four.Addr().(*net.TCPAddr).Port
		six, err := net.Listen("tcp6", net.JoinHostPort("::1", strconv.Itoa(chosen)))
		switch {
		case err == nil:
			return []net.Listener{four, six}, chosen, nil
		case !hasIPv6():
			return []net.Listener{four}, chosen, nil
		}
		four.Close()
		if port != 0 {
			return nil, 0, err
		}
	}
	return nil, 0, errors.New("all ports that were tried are in use")
}

func hasIPv6() bool {
	probe, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		return false
	}
	probe.Close()
	return true
}
