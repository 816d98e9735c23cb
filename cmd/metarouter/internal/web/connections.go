package web

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"go.uber.org/zap"
)

// A connections bounds the connections of an [http.Server] and, apart from them, the requests over HTTP/2, of which one
// connection has many. The requests of a connection in excess are refused.
type connections struct {
	log *zap.Logger

	mu      sync.Mutex // guards the fields below
	most    int        // connections, and requests over HTTP/2
	open    shares     // connections
	streams shares     // requests over HTTP/2
	refused int        // connections in excess
	seats   map[net.Conn]seat
	warned  time.Time // when the log last said that there are too many
}

const (
	// maxRefused is how many connections in excess are open for as long as it takes to refuse their first request.
	maxRefused = 64

	// warnAgain is after how long the log says again that there are too many connections.
	warnAgain = time.Minute
)

func newConnections(most int, log *zap.Logger) *connections {
	return &connections{log: log, most: most, open: make(shares), streams: make(shares), seats: make(map[net.Conn]seat)}
}

// limit changes the bound.
func (b *connections) limit(most int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.most = most
}

// Shares count by network: an IP address, or the /64 prefix of IPv6, since a client may have all its addresses.
// The invalid prefix has the sum.
type shares map[netip.Prefix]int

// take counts one more of a network in, unless there are too many: of most, one network may have three quarters.
func (s shares) take(from netip.Prefix, most int) bool {
	if s[netip.Prefix{}] >= most || s[from] >= max(1, most-most/4) {
		return false
	}
	s.count(from, 1)
	return true
}

func (s shares) count(from netip.Prefix, more int) {
	for _, p := range []netip.Prefix{from, {}} {
		if s[p] += more; s[p] == 0 {
			delete(s, p)
		}
	}
}

// A seat is what the context of a request says of its connection.
type seat struct {
	from  netip.Prefix
	taken bool
}

// seatKey is the key of a seat in contexts.
type seatKey struct{}

// context is the ConnContext of an [http.Server]. It counts the connection in.
func (b *connections) context(ctx context.Context, c net.Conn) context.Context {
	from := prefixOf(c)
	b.mu.Lock()
	s := seat{from, b.open.take(from, b.most)}
	switch {
	case s.taken:
		b.seats[c] = s
	case b.refused < maxRefused:
		b.refused++
		b.seats[c] = s
	default:
		c.Close()
	}
	says := !s.taken && time.Since(b.warned) > warnAgain
	if says {
		b.warned = time.Now()
	}
	all, own := b.open[netip.Prefix{}], b.open[from]
	b.mu.Unlock()
	if says { // without the lock, since the log may block
		b.log.Warn("there are too many connections: more are refused; see http.maxConnections",
			zap.Int("connections", all), zap.Stringer("latest from", from), zap.Int("of that network", own))
	}
	return context.WithValue(ctx, seatKey{}, s)
}

// changed is the ConnState of an [http.Server]. It counts connections out.
func (b *connections) changed(c net.Conn, state http.ConnState) {
	if state != http.StateClosed && state != http.StateHijacked {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	s, known := b.seats[c]
	delete(b.seats, c)
	switch {
	case s.taken:
		b.open.count(s.from, -1)
	case known:
		b.refused--
	}
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

// handler returns a handler that refuses requests when there are too many connections or requests.
func (b *connections) handler(serve http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s, _ := r.Context().Value(seatKey{}).(seat)
		if !s.taken {
			refuse(w)
			return
		}
		if r.ProtoMajor > 1 {
			if !b.begin(s.from) {
				refuse(w)
				return
			}
			defer b.end(s.from)
		}
		serve.ServeHTTP(w, r)
	})
}

func (b *connections) begin(from netip.Prefix) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.streams.take(from, b.most)
}

func (b *connections) end(from netip.Prefix) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.streams.count(from, -1)
}

// retryAfter is how many seconds a refused client shall wait.
const retryAfter = 2

func refuse(w http.ResponseWriter) {
	h := w.Header()
	h.Set("Connection", "close")
	h.Set("Retry-After", fmt.Sprint(retryAfter))
	h.Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusServiceUnavailable)
	fmt.Fprintf(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"busy: there are too many connections or requests; try again in %d s, or raise http.maxConnections in the configuration","data":{"retry_after":%[1]d}}}`, retryAfter)
}
