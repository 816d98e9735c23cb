package server

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

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/session"
)

// maxBuckets bounds the clients whose use is remembered. What one client has used
// is forgotten before its time only if so many others came since.
const maxBuckets = 10_000

// longestWait is what a client is told at most.
const longestWait = 24 * time.Hour

// A throttle holds clients back that make too many requests, by a token bucket for
// each.
type throttle struct {
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

// newThrottle returns a throttle for so many requests a second; nil if that is 0. A
// burst of 0 is a second's.
func newThrottle(perSecond float64, burst int) *throttle {
	if perSecond <= 0 {
		return nil
	}
	if burst == 0 {
		burst = int(math.Ceil(min(perSecond, math.MaxInt32)))
	}
	return &throttle{rate: rate.Limit(perSecond), burst: burst, buckets: make(map[string]*linked.Element)}
}

// take takes n requests of the client, or returns after what time so many as again
// may come, with which it begins anew then.
func (t *throttle) take(client string, n, again int) (wait time.Duration) {
	if t == nil || n == 0 {
		return 0
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	b, now := t.bucket(client), time.Now()
	if b.AllowN(now, n) {
		return 0
	}
	missing := float64(min(again, t.burst)) - b.TokensAt(now)
	return max(1, time.Duration(min(math.Ceil(missing/float64(t.rate)*1e9), float64(longestWait))))
}

// bucket returns the client's bucket. t.mu must be held.
func (t *throttle) bucket(client string) *bucket {
	if e, ok := t.buckets[client]; ok {
		t.order.MoveToBack(e)
		return e.Value.(*bucket)
	}
	now := time.Now()
	for e := t.order.Front(); e != nil; e = t.order.Front() {
		oldest := e.Value.(*bucket)
		if len(t.buckets) < maxBuckets && oldest.TokensAt(now) < float64(t.burst) {
			break
		} // else it is full, and as good as a new one
		delete(t.buckets, oldest.client)
		t.order.Remove(e)
	}
	b := &bucket{client, rate.NewLimiter(t.rate, t.burst)}
	t.buckets[client] = t.order.PushBack(b)
	return b
}

// network returns what tells clients apart that bear no token: the IP address; of
// IPv6 the /64, since a client may have all addresses of that. Behind a proxy, all
// have the proxy's.
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

// pay takes what is left to pay of so many requests from what the client may make.
// When it reports false, that they are too many was said.
func (x *exchange) pay(requests int) bool {
	t := x.h.throttle
	wait := t.take(x.payer, requests-x.paid, requests)
	if wait == 0 {
		x.paid = requests
		return true
	}
	seconds := max(1, int(math.Ceil(wait.Seconds())))
	message := fmt.Sprintf("too many requests: %v a second are allowed, and %d at once; try again in %d s", math.Round(float64(t.rate)*1e4)/1e4, t.burst, seconds)
	x.w.Header().Set("Retry-After", strconv.Itoa(seconds))
	x.refuse(http.StatusTooManyRequests, nil, &session.Error{
		Code: session.CodeInternal, Message: message, Data: wire.Marshal(map[string]int{"retry_after": seconds}),
	})
	return false
}
