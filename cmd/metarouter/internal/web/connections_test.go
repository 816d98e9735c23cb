package web

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// A fakeConn is a connection from an address.
type fakeConn struct {
	net.Conn
	from   net.IP
	closed bool
}

func (c *fakeConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: c.from, Port: 1} }
func (c *fakeConn) Close() error         { c.closed = true; return nil }

// add counts in so many connections from an address.
func add(b *connections, from string, n int) (all []*fakeConn) {
	for range n {
		c := &fakeConn{from: net.ParseIP(from)}
		b.add(c)
		all = append(all, c)
	}
	return all
}

func open(all []*fakeConn) (n int) {
	for _, c := range all {
		if !c.closed {
			n++
		}
	}
	return n
}

// serve begins a request of the connection, and returns what ends it.
func serve(b *connections, c net.Conn) (end func()) {
	p := b.known[c]
	b.enter(p, 0)
	q := &incoming{of: b, connection: p}
	q.complete()
	return func() { b.leave(p, 0, true) }
}

func TestConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newConnections(100)
		crowd := add(b, "192.0.2.1", 200)
		if open(crowd) != 75 || crowd[124].closed == crowd[125].closed {
			t.Errorf("one address has %d connections, not the latest 75", open(crowd))
		}
		others := add(b, "2001:db8::1", 20)
		neighbours := add(b, "2001:db8::2", 5)
		if open(crowd)+open(others)+open(neighbours) != 100 {
			t.Errorf("others find no room: %d, %d, %d", open(crowd), open(others), open(neighbours))
		}
		if len(b.networks) != 2 || b.networks[prefixOf(others[0])].taken != 25 {
			t.Errorf("%d networks", len(b.networks))
		}
		// A connection that was of use is kept, and so is the latest newcomer.
		serve(b, crowd[130])()
		time.Sleep(time.Second)
		more := add(b, "192.0.2.1", 74)
		if open(crowd) != 1 || crowd[130].closed || open(more) != 74 {
			t.Error("a connection that was of use, or a new one, is closed before an idle one")
		}
		// Those that are served are never closed.
		var ends []func()
		for _, c := range more {
			ends = append(ends, serve(b, c))
		}
		ends = append(ends, serve(b, crowd[130]))
		refused := add(b, "192.0.2.1", maxRefused+10)
		if open(more) != 74 || crowd[130].closed || open(refused) != maxRefused || b.enter(b.known[refused[maxRefused]], 0) {
			t.Errorf("%d are served, %d wait for being refused", open(more), open(refused))
		}
		if welcome := add(b, "192.0.2.2", 1)[0]; welcome.closed || !b.enter(b.known[welcome], 0) {
			t.Error("another address finds no room")
		}
		for _, end := range ends {
			end()
		}
		// Each is counted out once.
		for c := range b.known {
			b.changed(c, http.StateClosed)
			b.changed(c, http.StateClosed)
		}
		waiting := b.waiting.fresh.Len() + b.waiting.used.Len() + b.refused.Len()
		if b.taken != 0 || len(b.networks) != 0 || waiting != 0 {
			t.Errorf("%d are left, %d networks, %d wait", b.taken, len(b.networks), waiting)
		}
	})
}

// A connection that has brought a request is kept for longer than one that has not.
func TestMerit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newConnections(4) // three for one address
		good := add(b, "192.0.2.1", 1)
		serve(b, good[0])()
		for range 9 {
			time.Sleep(time.Second)
			if add(b, "192.0.2.1", 1); good[0].closed {
				t.Fatal("one that was of use is closed before one that was not")
			}
		}
		time.Sleep(time.Minute)
		late := add(b, "192.0.2.1", 2)
		time.Sleep(time.Second)
		if add(b, "192.0.2.1", 1); open(late) != 2 || !good[0].closed {
			t.Error("one that was of use long ago is kept before new ones")
		}
	})
}

// The log says once a minute that there are too many connections.
func TestFullIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newConnections(4)
		core, logs := observer.New(zap.WarnLevel)
		for range 3 {
			b.admit(&fakeConn{from: net.IPv4(192, 0, 2, 1)}, zap.New(core))
		}
		if logs.Len() > 0 {
			t.Error("logged with room for all")
		}
		for range 130 {
			b.admit(&fakeConn{from: net.IPv4(192, 0, 2, 1)}, zap.New(core))
			time.Sleep(time.Second)
		}
		if logs.Len() != 3 || logs.All()[0].ContextMap()["latest from"] != "192.0.2.1/32" {
			t.Errorf("%d times: %v", logs.Len(), logs.All()[0].ContextMap())
		}
	})
}

// A held is a handler that answers when the test lets it.
type held struct {
	entered chan struct{}
	release chan struct{}
}

// ServeHTTP implements [http.Handler].
func (h *held) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	if r.URL.Path == "/hold" && err == nil {
		h.entered <- struct{}{}
		<-h.release
	}
	fmt.Fprintf(w, "%d bytes over HTTP/%d", len(text), r.ProtoMajor)
}

// served starts a server with room for 8 connections, 6 of them for one address.
func served(t *testing.T) (*held, *httptest.Server) {
	h := &held{make(chan struct{}), make(chan struct{})}
	b := newConnections(8)
	s := httptest.NewUnstartedServer(b.handler(h))
	s.Listener = listener{s.Listener, b, zap.NewNop()}
	s.Config.ConnState, s.Config.ConnContext = b.changed, b.context
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.EnableHTTP2 = true
	t.Cleanup(s.Close)
	return h, s
}

func status(t *testing.T, c *http.Client, url, body string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	expect.OK(t, err)
	answer, err := c.Do(r)
	if err != nil {
		return err.Error()
	}
	defer answer.Body.Close()
	text, _ := io.ReadAll(answer.Body)
	return fmt.Sprint(answer.StatusCode, answer.Header.Get("Retry-After"), " ", string(text))
}

// Connections that stall make room for others. If all requests are being answered, more are
// refused, until one is done.
func TestFullListener(t *testing.T) {
	h, s := served(t)
	s.Start()
	fresh := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for i := range 100 {
		c, err := net.Dial("tcp", s.Listener.Addr().String())
		expect.OK(t, err)
		defer c.Close()
		if i%2 == 0 {
			io.WriteString(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n{")
		}
	}
	expect.Equal(t, status(t, fresh, s.URL, "four"), "200 4 bytes over HTTP/1", "among connections that stall")
	var holding sync.WaitGroup
	for range 6 {
		holding.Go(func() { status(t, fresh, s.URL+"/hold", "x") })
		<-h.entered
	}
	if got := status(t, fresh, s.URL, "four"); !strings.HasPrefix(got, "5032 {") {
		t.Errorf("without room: %s", got)
	}
	h.release <- struct{}{}
	mcptest.WaitFor(t, "room again", func() bool { // its connection, or that which was refused, may end only now
		return status(t, fresh, s.URL, "") == "200 0 bytes over HTTP/1"
	})
	close(h.release)
	holding.Wait()
}

// Requests over HTTP/2 count as connections do.
func TestFullConnection(t *testing.T) {
	h, s := served(t)
	s.StartTLS()
	var holding sync.WaitGroup
	for range 5 {
		holding.Go(func() { status(t, s.Client(), s.URL+"/hold", "x") })
		<-h.entered
	}
	if got := status(t, s.Client(), s.URL, "four"); !strings.HasPrefix(got, "5032 {") {
		t.Errorf("without room: %s", got)
	}
	close(h.release)
	holding.Wait()
	expect.Equal(t, status(t, s.Client(), s.URL, "four"), "200 4 bytes over HTTP/2", "with room again")
}
