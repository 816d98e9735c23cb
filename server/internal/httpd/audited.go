package httpd

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/internal/rate"
)

const (
	// maxRefusedOf bounds the refusals of one address that are recorded in a minute, maxRefused
	// those of all, each per action, maxCame the principals that have come, and maxSeen those that
	// are remembered. Neither strangers nor an issuer with ever new users must be able to push older
	// events out of the log, which is bounded.
	maxRefusedOf = 30
	maxRefused   = 300
	maxCame      = 300
	maxSeen      = 10_000
)

// An auditor records the requests that may not be made.
type auditor struct {
	*audited
	next http.Handler
}

// ServeHTTP implements [http.Handler].
func (a *auditor) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.next.ServeHTTP(w, r)
	p := responseOf(w)
	if !p.refused {
		return
	}
	e := auditEvent(r)
	e.Action, e.Outcome, e.Reason = audit.Request, audit.Refused, p.why
	if refusal, is := errors.AsType[*Refusal](requestOf(r).client.wrong); is && e.Principal == "" {
		e.Principal = refusal.Name
	}
	a.refused(e)
}

// audited records who was refused and who came, unless there is too much of it.
type audited struct {
	record   audit.Recorder // nil for none
	work     *work
	of, all  *rate.Limiter // of refusals, by action and address, and by action
	arrivals *rate.Limiter

	mu      sync.Mutex      // guards what follows
	leftOut int             // how many refusals were not recorded in the minute that is under way
	seen    map[string]bool // principals of issuers, by Hash
}

func newAudited(record audit.Recorder, work *work) *audited {
	minute := func(most int) *rate.Limiter { return rate.New(float64(most)/60, most) }
	return &audited{record: record, work: work, of: minute(maxRefusedOf), all: minute(maxRefused), arrivals: minute(maxCame)}
}

// refused records something that was refused or has failed.
func (a *audited) refused(e audit.Event) {
	switch {
	case a.record == nil:
		return
	case a.of.Take(e.Action+" "+e.From, 1, 1) == 0 && a.all.Take(e.Action, 1, 1) == 0:
		a.record(e)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.leftOut++; a.leftOut == 1 {
		a.work.running.Go(a.endMinute)
	}
}

// endMinute waits for a minute, and records how many refusals were left out.
func (a *audited) endMinute() {
	wait := time.NewTimer(time.Minute)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-a.work.ctx.Done():
	}
	a.mu.Lock()
	leftOut := a.leftOut
	a.leftOut = 0
	a.mu.Unlock()
	a.record(audit.Event{Action: audit.Request, Outcome: audit.Refused, Reason: fmt.Sprintf("%d more requests were refused within a minute", leftOut)})
}

// came records the first request of an issuer's principal. If too many come at once, it is a later
// request.
func (a *audited) came(r *http.Request) {
	hash := requestOf(r).client.principal.Hash
	a.mu.Lock()
	first := a.record != nil && !a.seen[hash] && a.arrivals.Take("", 1, 1) == 0
	if first {
		if a.seen == nil || len(a.seen) >= maxSeen {
			a.seen = make(map[string]bool)
		}
		a.seen[hash] = true
	}
	a.mu.Unlock()
	if first {
		e := auditEvent(r)
		e.Action, e.Outcome, e.Reason = audit.Request, audit.OK, "the first request since the router has started"
		a.record(e)
	}
}

// auditEvent returns what an audit log says of the request.
func auditEvent(r *http.Request) audit.Event {
	return audit.Event{Principal: requestOf(r).client.principal.Name, From: network(r.RemoteAddr), Target: r.URL.Path}
}
