package web

import (
	"context"
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

	"github.com/mcp-metarouter/metarouter/internal/clientauth"
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
		b.context(context.Background(), c)
		all = append(all, c)
	}
	return all
}

func TestConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zap.WarnLevel)
		b := newConnections(100, zap.New(core))
		crowd := add(b, "192.0.2.1", 75)
		expect.Equal(t, logs.Len(), 0, "warnings with room for all")
		for i := range 90 {
			expect.Equal(t, add(b, "192.0.2.1", 1)[0].closed, true, "in excess, number %d", i)
			time.Sleep(time.Second)
		}
		expect.Equal(t, logs.Len(), 2, "warnings, one a minute")
		expect.Equal(t, logs.All()[0].ContextMap()["latest from"], any("192.0.2.1"), "the warning")
		for _, c := range append(add(b, "2001:db8::1", 20), add(b, "2001:db8::2", 5)...) { // one network, /64
			expect.Equal(t, c.closed, false, "another network")
		}
		expect.Equal(t, add(b, "198.51.100.1", 1)[0].closed, true, "all have no room for more")
		b.changed(crowd[0], http.StateClosed)
		b.changed(crowd[0], http.StateClosed)
		expect.Equal(t, [3]int{len(b.open), b.open[""], b.open[clientauth.Network(crowd[0].RemoteAddr().String())]}, [3]int{3, 99, 74}, "counted out once")
		for c := range b.counted {
			b.changed(c, http.StateClosed)
		}
		expect.Equal(t, [2]int{len(b.open), len(b.counted)}, [2]int{0, 0}, "left")
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
	b := newConnections(8, zap.NewNop())
	s := httptest.NewUnstartedServer(b.handler(h))
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

// Connections above the share of an address are closed, until one ends.
func TestFullListener(t *testing.T) {
	h, s := served(t)
	s.Start()
	fresh := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	var holding sync.WaitGroup
	for range 6 {
		holding.Go(func() { status(t, fresh, s.URL+"/hold", "x") })
		<-h.entered
	}
	if got := status(t, fresh, s.URL, "four"); strings.HasPrefix(got, "200") {
		t.Errorf("without room: %s", got)
	}
	h.release <- struct{}{}
	mcptest.WaitFor(t, "room again", func() bool { // the connection of the first may end only now
		return status(t, fresh, s.URL, "") == "200 0 bytes over HTTP/1"
	})
	close(h.release)
	holding.Wait()
}

// Requests above the share of an address are refused, until one ends.
func TestFullConnection(t *testing.T) {
	h, s := served(t)
	s.StartTLS()
	var holding sync.WaitGroup
	for range 6 {
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
