package httpd

import (
	"fmt"
	"math"
	"net"
	"net/http"
	"net/netip"
	"strconv"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// limits let a client make as many requests as its limiter allows.
type limits struct{ next http.Handler }

// ServeHTTP implements [http.Handler].
func (h *limits) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := requestOf(r)
	if q.quota.payer == "" && q.quota.limiter != nil { // a client that guesses tokens is known by its address alone
		q.quota.payer = network(r.RemoteAddr)
	}
	if pay(w, r, 1) {
		h.next.ServeHTTP(w, r)
	}
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

// maxBatch returns how many messages a batch may have. A batch of more than the burst could
// never be let in.
func (q *request) maxBatch() int {
	if q.quota.limiter == nil {
		return q.rules.maxBatch
	}
	return min(q.rules.maxBatch, q.quota.limiter.Burst)
}

// pay counts so many requests of the client, less those that it has paid for. If it
// reports false, it has answered that they are too many.
func pay(w http.ResponseWriter, r *http.Request, requests int) bool {
	q := requestOf(r)
	l := q.quota.limiter
	wait := l.Take(q.quota.payer, requests-q.quota.paid, requests)
	if wait == 0 {
		q.quota.paid = requests
		return true
	}
	seconds := max(1, int(math.Ceil(wait.Seconds())))
	whose := ""
	if l != q.rules.limiter {
		whose = " with the token " + q.client.principal.Name
	}
	message := fmt.Sprintf("too many requests%s: %v a second are allowed, and %d at once; try again in %d s", whose, math.Round(l.PerSecond*1e4)/1e4, l.Burst, seconds)
	w.Header().Set("Retry-After", strconv.Itoa(seconds))
	refuse(w, r, http.StatusTooManyRequests, nil, &session.Error{
		Code: session.CodeInternal, Message: message, Data: wire.Marshal(map[string]int{"retry_after": seconds}),
	})
	return false
}
