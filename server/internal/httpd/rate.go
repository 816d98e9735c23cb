package httpd

import (
	linked "container/list"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// maxBuckets bounds the clients whose requests are counted. A client's count is dropped
// early only if so many other clients came since.
const maxBuckets = 10_000

// longestWait bounds the time after which a client may try again.
const longestWait = 24 * time.Hour

// A limiter refuses requests of clients that make too many, by a token bucket for each
// client.
type limiter struct {
	rate  rate.Limit
	burst int

	mu      sync.Mutex // guards what follows
	buckets map[string]*linked.Element
	order   linked.List // of *bucket, the one used last at the end
}

type bucket struct {
	client string
	*rate.Limiter
}

// newLimiter returns a limiter for so many requests a second; nil if that is 0. A
// burst of 0 is a second's.
func newLimiter(perSecond float64, burst int) *limiter {
	if perSecond <= 0 {
		return nil
	}
	if burst == 0 {
		burst = int(math.Ceil(min(perSecond, math.MaxInt32)))
	}
	return &limiter{rate: rate.Limit(perSecond), burst: burst, buckets: make(map[string]*linked.Element)}
}

// take lets n requests of the client pass and returns 0, or returns how long the client
// must wait until so many as again may pass.
func (l *limiter) take(client string, n, again int) (wait time.Duration) {
	if l == nil || n == 0 {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	b, now := l.bucket(client), time.Now()
	if b.AllowN(now, n) {
		return 0
	}
	missing := float64(min(again, l.burst)) - b.TokensAt(now)
	return max(1, time.Duration(min(math.Ceil(missing/float64(l.rate)*1e9), float64(longestWait))))
}

// bucket returns the client's bucket. l.mu must be held.
func (l *limiter) bucket(client string) *bucket {
	if e, ok := l.buckets[client]; ok {
		l.order.MoveToBack(e)
		return e.Value.(*bucket)
	}
	now := time.Now()
	for e := l.order.Front(); e != nil; e = l.order.Front() {
		oldest := e.Value.(*bucket)
		if len(l.buckets) < maxBuckets && oldest.TokensAt(now) < float64(l.burst) {
			break
		} // a full bucket is like a new one
		delete(l.buckets, oldest.client)
		l.order.Remove(e)
	}
	b := &bucket{client, rate.NewLimiter(l.rate, l.burst)}
	l.buckets[client] = l.order.PushBack(b)
	return b
}

// network returns what identifies a client without a token: the IP address; of IPv6 the
// /64 prefix, since a client may have all its addresses. All clients behind a proxy have
// the proxy's address.
func network(remote string) string {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return remote
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	if ip = ip.Unmap().WithZone(""); ip.Is4() {
		return ip.String()
	}
	prefix, _ := ip.Prefix(64)
	return prefix.String()
}

// pay counts so many requests of the client, less those that it has paid for. If it
// reports false, it has answered that they are too many.
func (x *exchange) pay(requests int) bool {
	l := x.rules.limiter
	wait := l.take(x.payer, requests-x.paid, requests)
	if wait == 0 {
		x.paid = requests
		return true
	}
	seconds := max(1, int(math.Ceil(wait.Seconds())))
	message := fmt.Sprintf("too many requests: %v a second are allowed, and %d at once; try again in %d s", math.Round(float64(l.rate)*1e4)/1e4, l.burst, seconds)
	x.w.Header().Set("Retry-After", strconv.Itoa(seconds))
	x.refuse(http.StatusTooManyRequests, nil, &session.Error{
		Code: session.CodeInternal, Message: message, Data: wire.Marshal(map[string]int{"retry_after": seconds}),
	})
	return false
}
