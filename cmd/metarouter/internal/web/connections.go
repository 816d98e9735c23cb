package web

import (
	"container/list"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"go.uber.org/zap"
)

const (
	// maxRefused is how many connections above the bound are kept for as long as it takes to
	// refuse their first request.
	maxRefused = 64

	// usedFactor is how many times as long a connection may wait after its first request.
	usedFactor = 10
)

// A connections bounds the connections of a listener, plus the requests over HTTP/2. One
// network may have three quarters of them. A connection in excess replaces the one that has
// waited longest for a whole request, of the same network if that has its share. If no connection
// waits, since all requests are being answered, its first request is refused.
type connections struct {
	mu       sync.Mutex // guards the fields below and the connections
	most     int
	taken    int
	known    map[net.Conn]*connection
	networks map[netip.Prefix]*network
	waiting  queue
	refused  list.List // of *connection
	warned   time.Time // when the log last said that there are too many
}

// warnAgain is after how long the log says again that there are too many connections.
const warnAgain = time.Minute

// A network is where the connections of one client come from: an IP address, or the /64
// prefix of IPv6, since a client may have all its addresses.
type network struct {
	prefix  netip.Prefix
	taken   int
	waiting queue
}

// A connection is one that the listener has accepted.
type connection struct {
	conn    net.Conn
	network *network
	streams int       // requests over HTTP/2
	active  int       // requests that have come whole and are being answered
	used    bool      // it has brought a whole request
	since   time.Time // when it began to wait
	gone    bool
	refused *list.Element // in connections.refused; nil if its requests are served

	inAll, inNetwork *list.Element // in the queues; nil if it does not wait
}

// A queue has the connections that wait for a whole request, the one that waits longest first.
type queue struct{ fresh, used list.List }

func (q *queue) of(p *connection) *list.List {
	if p.used {
		return &q.used
	}
	return &q.fresh
}

// first returns the connection to be closed first; nil if no connection waits.
func (q *queue) first(now time.Time) *connection {
	fresh, used := front(&q.fresh), front(&q.used)
	if fresh == nil || used != nil && now.Sub(used.since) > usedFactor*now.Sub(fresh.since) {
		return used
	}
	return fresh
}

// front returns the first connection of the list, or nil if the list is empty.
func front(l *list.List) *connection {
	if e := l.Front(); e != nil {
		return e.Value.(*connection)
	}
	return nil
}

func newConnections(most int) *connections {
	return &connections{most: most, known: make(map[net.Conn]*connection), networks: make(map[netip.Prefix]*network)}
}

// limit changes the bound.
func (b *connections) limit(most int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.most = most
}

// admit counts a connection in, and logs if there are too many.
func (b *connections) admit(c net.Conn, log *zap.Logger) {
	b.mu.Lock()
	before := b.taken
	n := b.add(c)
	full := b.taken <= before && time.Since(b.warned) > warnAgain // another was closed, or this one is refused
	if full {
		b.warned = time.Now()
	}
	taken, own := b.taken, n.taken
	b.mu.Unlock()
	if full { // without the lock, since the log may block
		log.Warn("there are too many connections: those that wait longest for a request are closed, and others refused if all work; see http.maxConnections",
			zap.Int("connections", taken), zap.Stringer("latest from", n.prefix), zap.Int("of that network", own))
	}
}

// add counts a connection in. b.mu must be held.
func (b *connections) add(c net.Conn) *network {
	from := prefixOf(c)
	n := b.networks[from]
	if n == nil {
		n = &network{prefix: from}
	}
	p := &connection{conn: c, network: n}
	b.known[c] = p
	if b.hasRoom(n) {
		b.count(n, 1)
		b.wait(p)
		return n
	}
	if b.refused.Len() >= maxRefused {
		b.evict(b.refused.Front().Value.(*connection))
	}
	p.refused = b.refused.PushBack(p)
	return n
}

// hasRoom makes room for one more from a network, and reports whether there is. b.mu must be
// held.
func (b *connections) hasRoom(n *network) bool {
	now := time.Now()
	for n.taken >= max(1, b.most-b.most/4) {
		first := n.waiting.first(now)
		if first == nil {
			return false
		}
		b.evict(first)
	}
	for b.taken >= b.most {
		first := b.waiting.first(now)
		if first == nil {
			return false
		}
		b.evict(first)
	}
	return true
}

// count counts more of a network. b.mu must be held.
func (b *connections) count(n *network, more int) {
	b.taken += more
	n.taken += more
	if n.taken == 0 {
		delete(b.networks, n.prefix)
	} else {
		b.networks[n.prefix] = n
	}
}

// wait notes that the connection waits for a request. b.mu must be held.
func (b *connections) wait(p *connection) {
	p.since = time.Now()
	p.inAll, p.inNetwork = b.waiting.of(p).PushBack(p), p.network.waiting.of(p).PushBack(p)
}

// work notes that the connection does not wait. b.mu must be held.
func (b *connections) work(p *connection) {
	if p.inAll != nil {
		b.waiting.of(p).Remove(p.inAll)
		p.network.waiting.of(p).Remove(p.inNetwork)
		p.inAll, p.inNetwork = nil, nil
	}
}

// evict closes a connection. b.mu must be held.
func (b *connections) evict(p *connection) {
	b.remove(p)
	p.conn.Close()
}

// remove counts a connection out, with its streams. b.mu must be held.
func (b *connections) remove(p *connection) {
	p.gone = true
	delete(b.known, p.conn)
	if p.refused != nil {
		b.refused.Remove(p.refused)
		return
	}
	b.work(p)
	b.count(p.network, -1-p.streams)
}

// changed is the ConnState of an [http.Server].
func (b *connections) changed(c net.Conn, state http.ConnState) {
	if state != http.StateClosed && state != http.StateHijacked {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if p := b.known[accepted(c)]; p != nil {
		b.remove(p)
	}
}

// accepted returns the connection that the listener accepted.
func accepted(c net.Conn) net.Conn {
	if t, ok := c.(*tls.Conn); ok {
		return t.NetConn()
	}
	return c
}

func prefixOf(c net.Conn) netip.Prefix {
	address, _ := c.RemoteAddr().(*net.TCPAddr)
	ip := address.AddrPort().Addr().Unmap().WithZone("")
	bits := 64
	if ip.Is4() {
		bits = 32
	}
	prefix, _ := ip.Prefix(bits)
	return prefix
}

// connectionKey is the key of a connection in contexts.
type connectionKey struct{}

// context is the ConnContext of an [http.Server].
func (b *connections) context(ctx context.Context, c net.Conn) context.Context {
	b.mu.Lock()
	defer b.mu.Unlock()
	return context.WithValue(ctx, connectionKey{}, b.known[accepted(c)])
}

// handler returns a handler that refuses requests when there are too many connections. A connection waits
// until the body of a request has come whole, and again when the request is answered.
func (b *connections) handler(serve http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, _ := r.Context().Value(connectionKey{}).(*connection)
		stream := 0
		if r.ProtoMajor > 1 {
			stream = 1
		}
		if p == nil || !b.enter(p, stream) {
			b.refuse(w)
			return
		}
		q := &incoming{ReadCloser: r.Body, of: b, connection: p}
		defer func() { b.leave(p, stream, q.whole) }()
		if r.ContentLength == 0 {
			q.complete()
		}
		r.Body = q
		serve.ServeHTTP(w, r)
	})
}

// enter reports whether the connection's request may be served, which counts as one more connection if it is a
// stream.
func (b *connections) enter(p *connection, stream int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.refused != nil || stream > 0 && !b.hasRoom(p.network) || p.gone {
		return false
	}
	if stream > 0 {
		p.streams += stream
		b.count(p.network, stream)
	}
	return true
}

// leave ends a request. The connection waits for the next one.
func (b *connections) leave(p *connection, stream int, whole bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if whole {
		p.active--
	}
	if p.gone {
		return
	}
	if stream > 0 {
		p.streams -= stream
		b.count(p.network, -stream)
	}
	if p.active == 0 && p.inAll == nil {
		p.used = true
		b.wait(p)
	}
}

// retryAfter is how many seconds a refused client shall wait.
const retryAfter = 2

func (b *connections) refuse(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Connection", "close")
	h.Set("Retry-After", fmt.Sprint(retryAfter))
	h.Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusServiceUnavailable)
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"busy: there are too many connections; try again in %d s, or raise http.maxConnections in the configuration","data":{"retry_after":%[1]d}}}`, retryAfter)
}

// An incoming is the body of a request. It notes when the body has come whole. One goroutine
// at a time may read it.
type incoming struct {
	io.ReadCloser
	of         *connections
	connection *connection
	whole      bool
}

// Read implements [io.Reader].
func (q *incoming) Read(p []byte) (int, error) {
	n, err := q.ReadCloser.Read(p)
	if err == io.EOF {
		q.complete()
	}
	return n, err
}

func (q *incoming) complete() {
	if q.whole {
		return
	}
	q.whole = true
	q.of.mu.Lock()
	defer q.of.mu.Unlock()
	q.connection.active++
	q.of.work(q.connection)
}

// A listener accepts connections that are counted.
type listener struct {
	net.Listener
	connections *connections
	log         *zap.Logger
}

// Accept implements [net.Listener].
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err == nil {
		l.connections.admit(c, l.log)
	}
	return c, err
}
