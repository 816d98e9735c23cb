package web

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/time/rate"

	"github.com/mcp-metarouter/metarouter/internal/clientauth"
)

// A connections bounds the connections of an [http.Server] and, apart from them, the requests at a time, of which a
// connection over HTTP/2 has many. Connections in excess are closed, and requests in excess refused.
type connections struct {
	log *zap.Logger

	mu       sync.Mutex // guards the fields below
	most     int        // connections, and requests
	open     shares     // connections
	requests shares
	counted  map[net.Conn]string
	warn     rate.Sometimes // that there are too many
}

// warnAgain is after how long the log says again that there are too many connections.
const warnAgain = time.Minute

func newConnections(most int, log *zap.Logger) *connections {
	return &connections{log: log, most: most, open: make(shares), requests: make(shares), counted: make(map[net.Conn]string), warn: rate.Sometimes{Interval: warnAgain}}
}

// limit changes the bound.
func (b *connections) limit(most int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.most = most
}

// Shares count by network, as [clientauth.Network] names it. The empty name has the sum.
type shares map[string]int

// take counts one more of a network in, unless there are too many: of most, one network may have three quarters.
func (s shares) take(from string, most int) bool {
	if s[""] >= most || s[from] >= max(1, most-most/4) {
		return false
	}
	s.count(from, 1)
	return true
}

func (s shares) count(from string, more int) {
	for _, p := range []string{from, ""} {
		if s[p] += more; s[p] == 0 {
			delete(s, p)
		}
	}
}

// context is the ConnContext of an [http.Server]. It counts the connection in, or closes it.
func (b *connections) context(ctx context.Context, c net.Conn) context.Context {
	from := clientauth.Network(c.RemoteAddr().String())
	b.mu.Lock()
	taken := b.open.take(from, b.most)
	if taken {
		b.counted[c] = from
	}
	all, own := b.open[""], b.open[from]
	b.mu.Unlock()
	if !taken {
		c.Close()
		b.warn.Do(func() { // without the lock, since the log may block
			b.log.Warn("there are too many connections: more are closed; see http.maxConnections",
				zap.Int("connections", all), zap.String("latest from", from), zap.Int("of that network", own))
		})
	}
	return ctx
}

// changed is the ConnState of an [http.Server]. It counts connections out.
func (b *connections) changed(c net.Conn, state http.ConnState) {
	if state != http.StateClosed && state != http.StateHijacked {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if from, ok := b.counted[c]; ok {
		b.open.count(from, -1)
		delete(b.counted, c)
	}
}

// retryAfter is how many seconds a refused client shall wait.
const retryAfter = 2

// handler returns a handler that refuses requests when there are too many.
func (b *connections) handler(serve http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		from := clientauth.Network(r.RemoteAddr)
		b.mu.Lock()
		taken := b.requests.take(from, b.most)
		b.mu.Unlock()
		if !taken {
			h := w.Header()
			h.Set("Retry-After", fmt.Sprint(retryAfter))
			h.Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":null,"error":{"code":-32603,"message":"busy: there are too many requests; try again in %d s, or raise http.maxConnections in the configuration","data":{"retry_after":%[1]d}}}`, retryAfter)
			return
		}
		defer func() {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.requests.count(from, -1)
		}()
		serve.ServeHTTP(w, r)
	})
}
