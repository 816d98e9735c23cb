package httpd

import (
	"fmt"
	"math"
	"net/http"

	"github.com/mcp-metarouter/metarouter/server/internal/identity"
)

// limits let a client make as many requests as its limiter allows.
type limits struct{ next http.Handler }

// ServeHTTP implements [http.Handler].
func (h *limits) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := requestOf(r)
	if q.quota.payer == "" && q.quota.limiter != nil { // a client that guesses tokens is known by its address alone
		q.quota.payer = identity.Network(r.RemoteAddr)
	}
	if pay(w, r, 1) {
		h.next.ServeHTTP(w, r)
	}
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
	whose := ""
	if l != q.rules.limiter {
		whose = " with the token " + q.client.Principal.Name
	}
	deny(w, r, nil, identity.Busy(http.StatusTooManyRequests, wait, fmt.Sprintf("too many requests%s: %v a second are allowed, and %d at once", whose, math.Round(l.PerSecond*1e4)/1e4, l.Burst)))
	return false
}
