package httpd

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/audit"
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

// audited records who was refused and who came. The zero value records nothing.
type audited struct {
	record audit.Recorder
	work   *work

	mu      sync.Mutex      // guards what follows
	minute  map[string]int  // how many refusals were recorded, by action, and by action and address; nil if nothing was
	arrived int             // how many principals were recorded in the minute
	leftOut int             // how many refusals were not recorded
	seen    map[string]bool // principals of issuers, by Hash
}

// refused records something that was refused or has failed, unless there was too much of it.
func (a *audited) refused(e audit.Event) {
	if a.record == nil {
		return
	}
	of := e.Action + " " + e.From
	a.mu.Lock()
	a.beginMinute()
	record := a.minute[e.Action] < maxRefused && a.minute[of] < maxRefusedOf
	if record {
		a.minute[e.Action]++
		a.minute[of]++
	} else {
		a.leftOut++
	}
	a.mu.Unlock()
	if record {
		a.record(e)
	}
}

// beginMinute begins to count, unless it has begun. a.mu must be held.
func (a *audited) beginMinute() {
	if a.minute == nil {
		a.minute = make(map[string]int)
		a.work.running.Go(a.endMinute)
	}
}

// endMinute waits for the end of the minute, and records how many requests were left out.
func (a *audited) endMinute() {
	wait := time.NewTimer(time.Minute)
	defer wait.Stop()
	select {
	case <-wait.C:
	case <-a.work.ctx.Done():
	}
	a.mu.Lock()
	leftOut := a.leftOut
	a.minute, a.arrived, a.leftOut = nil, 0, 0
	a.mu.Unlock()
	if leftOut > 0 {
		a.record(audit.Event{Action: audit.Request, Outcome: audit.Refused, Reason: fmt.Sprintf("%d more requests were refused within a minute", leftOut)})
	}
}

// came records the first request of an issuer's principal. If too many come at once, it is a later
// request.
func (a *audited) came(r *http.Request) {
	q := requestOf(r)
	if a.record == nil {
		return
	}
	a.mu.Lock()
	hash := q.client.principal.Hash
	first := !a.seen[hash] && a.arrived < maxCame
	if first {
		a.beginMinute()
		a.arrived++
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
