package login

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"strconv"
	"time"

	"golang.org/x/net/netutil"

	"github.com/mcp-metarouter/metarouter/internal/signal"
)

const (
	// maxConnections is how many connections a listener serves at once; others wait.
	maxConnections = 16
	// loopbackTime bounds the reading of a request, and idle connections.
	loopbackTime = 10 * time.Second
	// partingTime is how long a page may take to reach the browser when its login is done.
	partingTime = time.Second
)

// A loopback listens on a port of this machine for the answer to one login.
type loopback struct {
	port      int
	listeners []net.Listener
	server    *http.Server
}

// listen has a handler answer browsers at a port until close is called; 0 is any port. A fixed port is one on both loopback
// addresses, since "localhost" may be either. The life has begun work.
func listen(l *signal.Life, port int, h http.HandlerFunc) (*loopback, error) {
	four, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, err
	}
	listeners := []net.Listener{four}
	if port != 0 {
		six, err := net.Listen("tcp6", net.JoinHostPort("::1", strconv.Itoa(port)))
		switch {
		case err == nil:
			listeners = append(listeners, six)
		case hasIPv6():
			four.Close()
			return nil, err
		}
	}
	o := &loopback{port: four.Addr().(*net.TCPAddr).Port, listeners: listeners, server: &http.Server{
		Handler:        h,
		ReadTimeout:    loopbackTime,
		WriteTimeout:   exchangeTime + loopbackTime,
		MaxHeaderBytes: 64 << 10,
		ErrorLog:       log.New(io.Discard, "", 0),
	}}
	o.server.SetKeepAlivesEnabled(false)
	for _, listener := range listeners {
		l.Work.Go(func() { _ = o.server.Serve(netutil.LimitListener(listener, maxConnections)) })
	}
	return o, nil
}

func hasIPv6() bool {
	probe, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		return false
	}
	probe.Close()
	return true
}

// close frees the port. A page that is sent still reaches its browser. o may be nil.
func (o *loopback) close(l *signal.Life) {
	if o == nil {
		return
	}
	for _, listener := range o.listeners {
		listener.Close()
	}
	l.Work.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), partingTime)
		defer cancel()
		if o.server.Shutdown(ctx) != nil { // browsers open connections in advance, without a request
			o.server.Close()
		}
	})
}
