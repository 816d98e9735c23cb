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
func (x *exchange) maxBatch() int {
	if x.limiter == nil {
		return x.rules.maxBatch
	}
	return min(x.rules.maxBatch, x.limiter.Burst)
}

// pay counts so many requests of the client, less those that it has paid for. If it
// reports false, it has answered that they are too many.
func (x *exchange) pay(requests int) bool {
	l := x.limiter
	wait := l.Take(x.payer, requests-x.paid, requests)
	if wait == 0 {
		x.paid = requests
		return true
	}
	seconds := max(1, int(math.Ceil(wait.Seconds())))
	whose := ""
	if l != x.rules.limiter {
		whose = " with the token " + x.principal.Name
	}
	message := fmt.Sprintf("too many requests%s: %v a second are allowed, and %d at once; try again in %d s", whose, math.Round(l.PerSecond*1e4)/1e4, l.Burst, seconds)
	x.w.Header().Set("Retry-After", strconv.Itoa(seconds))
	x.refuse(http.StatusTooManyRequests, nil, &session.Error{
		Code: session.CodeInternal, Message: message, Data: wire.Marshal(map[string]int{"retry_after": seconds}),
	})
	return false
}
