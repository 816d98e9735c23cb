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
	listeners []net.Listener // of a fixed port on both loopback addresses, since "localhost" may be either
	server    *http.Server
}

// listen listens on a port; 0 is any.
func listen(port int) (*loopback, error) {
	four, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, err
	}
	l := &loopback{port: four.Addr().(*net.TCPAddr).Port, listeners: []net.Listener{four}}
	if port == 0 { // whose redirect says 127.0.0.1
		return l, nil
	}
	six, err := net.Listen("tcp6", net.JoinHostPort("::1", strconv.Itoa(port)))
	switch {
	case err == nil:
		l.listeners = append(l.listeners, six)
	case hasIPv6():
		four.Close()
		return nil, err
	}
	return l, nil
}

func hasIPv6() bool {
	probe, err := net.Listen("tcp6", "[::1]:0")
	if err != nil {
		return false
	}
	probe.Close()
	return true
}

// serve answers browsers until close is called. The life of l has work.
func (o *loopback) serve(l *life, h http.HandlerFunc) {
	o.server = &http.Server{
		Handler:        h,
		ReadTimeout:    loopbackTime,
		WriteTimeout:   exchangeTime + loopbackTime,
		MaxHeaderBytes: 64 << 10,
		ErrorLog:       log.New(io.Discard, "", 0),
	}
	o.server.SetKeepAlivesEnabled(false)
	for _, listener := range o.listeners {
		l.Work.Go(func() { _ = o.server.Serve(netutil.LimitListener(listener, maxConnections)) })
	}
}

// close frees the port. A page that is sent still reaches its browser. o may be nil.
func (o *loopback) close(l *life) {
	if o == nil {
		return
	}
	for _, listener := range o.listeners {
		listener.Close()
	}
	if o.server != nil {
		l.Work.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), partingTime)
			defer cancel()
			if o.server.Shutdown(ctx) != nil { // browsers open connections in advance, without a request
				o.server.Close()
			}
		})
	}
}
