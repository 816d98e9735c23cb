package identity

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/internal/clientauth"
	"github.com/mcp-metarouter/metarouter/internal/rate"
)

const (
	// maxRefusedOf bounds the refusals of one address that are recorded in a minute, maxRefused
	// the refusals of all, each per action, maxCame the principals that have come, and maxSeen the principals that
	// are remembered. Neither strangers nor an issuer with ever new users must be able to push older
	// events out of the log, which is bounded.
	maxRefusedOf = 30
	maxRefused   = 300
	maxCame      = 300
	maxSeen      = 10_000
)

// A trail records in the audit log who was refused and who came, unless there is too much of it.
type trail struct {
	record   audit.Recorder // may be nil
	of, all  *rate.Limiter  // of refusals, by action and address, and by action
	arrivals *rate.Limiter
	leftOut  atomic.Int64 // refusals since the last one that was recorded

	mu   sync.Mutex      // guards seen
	seen map[string]bool // principals of issuers, by Hash
}

func newTrail(record audit.Recorder) *trail {
	return &trail{record: record, of: rate.PerMinute(maxRefusedOf), all: rate.PerMinute(maxRefused), arrivals: rate.PerMinute(maxCame)}
}

// Refused records in the audit log that the client may not make the request.
func (i *Identifier) Refused(r *http.Request, c *Sender, why string) {
	e := eventOf(r, c.Principal)
	e.Outcome, e.Reason = audit.Refused, why
	if refusal, is := errors.AsType[*clientauth.Refusal](c.wrong); is {
		e.Principal = cmp.Or(e.Principal, refusal.Name)
	}
	i.trail.refused(e)
}

// refused records something that was refused or has failed.
func (t *trail) refused(e audit.Event) {
	if t.of.Take(e.Action+" "+e.From, 1, 1) > 0 || t.all.Take(e.Action, 1, 1) > 0 {
		t.leftOut.Add(1)
		return
	}
	t.count()
	t.record.Record(e)
}

// count records how many refusals were left out since it was called last.
func (t *trail) count() {
	if n := t.leftOut.Swap(0); n > 0 {
		t.record.Record(audit.Event{Action: audit.Request, Outcome: audit.Refused, Reason: fmt.Sprintf("%d more requests were refused before", n)})
	}
}

// came records the first request of an issuer's principal. If too many come at once, it is a later
// request.
func (t *trail) came(r *http.Request, who clientauth.Principal) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.seen[who.Hash] || t.arrivals.Take("", 1, 1) > 0 {
		return
	}
	if t.seen == nil || len(t.seen) >= maxSeen {
		t.seen = make(map[string]bool)
	}
	t.seen[who.Hash] = true
	e := eventOf(r, who)
	e.Outcome, e.Reason = audit.OK, "the first request since the router has started"
	t.record.Record(e)
}

// eventOf returns the request as an event of the audit log.
func eventOf(r *http.Request, who clientauth.Principal) audit.Event {
	return audit.Event{Action: audit.Request, Principal: who.Name, From: clientauth.Network(r.RemoteAddr), Target: r.URL.Path}
}
