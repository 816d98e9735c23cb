package approval

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/audit"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/signal"
)

const (
	// Lifetime is how long a request waits for an answer, and how long an approval waits for
	// its call.
	Lifetime = 5 * time.Minute

	// maxRequests bounds the requests on a desk, and maxOfPrincipal the requests that a
	// principal may put there within a Lifetime, answered or not.
	maxRequests    = 200
	maxOfPrincipal = 50
)

// Agreements are the arguments of route_task by which a model or a person agrees to a call. No repair of
// arguments sets or moves one.
var Agreements = []string{"run_anyway", "allow_destructive"}

// An Answer is a person's answer to a question.
type Answer string

// The answers, with the words of MCP.
const (
	Accept    Answer = "accept"
	AcceptAll Answer = "accept all" // further calls of the tool by the same script, too
	Decline   Answer = "decline"
	Cancel    Answer = "cancel" // the person closed the question
)

// A Person asks the person at the client a question, until ctx ends. An error says why no answer
// came, with the correction; a [*session.Error] is that the client can't ask.
type Person func(ctx context.Context, question string) (Answer, error)

// A Pending is a request that waits for an answer.
type Pending struct {
	ID        string    `json:"id"` // random
	Principal string    `json:"principal"`
	Profile   string    `json:"profile"`
	Client    string    `json:"client"`
	Server    string    `json:"server"`
	Tool      string    `json:"tool"`
	Arguments string    `json:"arguments"` // indented, with hidden characters escaped and bounded
	Whole     bool      `json:"whole"`     // Arguments are all there are
	Hash      string    `json:"hash"`      // SHA-256 of all arguments, in hexadecimal
	Others    string    `json:"others,omitempty"`
	Reason    string    `json:"reason"`
	Script    string    `json:"script,omitempty"` // the script that calls it; "" without one
	Asking    bool      `json:"asking"`           // the client's person is asked too
	Since     time.Time `json:"since"`
	Expires   time.Time `json:"expires"`
}

// A deskRequest is a request on the desk. The mutex of the desk guards it.
type deskRequest struct {
	Pending
	key     Key
	script  Key    // zero without a script
	verdict Answer // of an admin; "" without one
	by      string // the admin
	decided func() // ends the question to the client's person; nil for a request without a call that waits
}

// A Desk has the requests that wait. Its methods may be called by many goroutines at once.
type Desk struct {
	log   *zap.Logger
	audit audit.Recorder

	mu       sync.Mutex // guards the fields below
	requests map[string]*deskRequest
	posted   map[Key]*deskRequest   // requests without a call that waits
	recent   map[string][]time.Time // when each principal put requests on the desk, for a Lifetime
	scripts  map[Key]agreement
	changed  signal.Change
}

// NewDesk returns an empty desk, which logs each approval and refusal with its author, without arguments.
// It records the answers of clients' persons; the callers of Decide record those answers.
func NewDesk(log *zap.Logger, recorder audit.Recorder) *Desk {
	return &Desk{
		log: log.Named("approval"), audit: recorder, requests: make(map[string]*deskRequest), posted: make(map[Key]*deskRequest),
		recent: make(map[string][]time.Time), scripts: make(map[Key]agreement),
	}
}

// Ask returns nil if the call may be made: once for each approval. It asks the person and, by
// way of the desk, the admins; the first answer counts, and ends the other question. With a
// nil person, or one that can't ask, it returns a [*Refused] at once and leaves the request on the desk.
// Other errors are a [*Refused], or the cause of ctx's end.
func (d *Desk) Ask(ctx context.Context, r Request, person Person) error {
	key := r.Key()
	if verdict, by := d.redeem(&r, key); verdict != "" {
		if verdict == AcceptAll {
			d.record(ctx, &r, verdict)
		}
		return d.outcome(&r, verdict, by)
	}
	atClient := person != nil
	switch {
	case !atClient && r.Page == nil:
		return d.post(&r, key)
	case !atClient:
		person = func(ctx context.Context, _ string) (Answer, error) {
			defer r.Page.AwaitPage(ctx)()
			<-ctx.Done()
			return "", context.Cause(ctx)
		}
	}
	bounded, cancel := context.WithTimeoutCause(ctx, Lifetime, errLate)
	defer cancel()
	asking, decided := context.WithCancelCause(bounded)
	defer decided(nil)
	d.mu.Lock()
	d.sweep()
	e := d.add(&r, key, func() { decided(errDecided) }) // nil if the desk is full
	d.mu.Unlock()
	if e == nil && !atClient {
		return &Refused{Request: r, Why: Full}
	}
	said, err := person(asking, r.Question())
	verdict, by := d.take(e)
	_, unable := errors.AsType[*session.Error](err)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case verdict != "":
		return d.outcome(&r, verdict, by)
	case err == nil:
		d.record(ctx, &r, said)
		return d.outcome(&r, said, "")
	case bounded.Err() != nil:
		d.record(ctx, &r, "")
		return &Refused{Request: r, Why: Late}
	case unable:
		return d.post(&r, key)
	}
	return &Refused{Request: r, Why: Unanswered, err: err}
}

var (
	errLate    = errors.New("nobody answered in time")
	errDecided = errors.New("an admin has answered")
)

// An agreement is a person's, to all calls of a tool by a script: who agreed, and until when.
type agreement struct {
	by   string
	ends time.Time
}

// maxScript is longer than a script lives.
const maxScript = time.Hour

// agree has all calls of the tool by the script run: those that wait, and further ones.
func (d *Desk) agree(r *Request, by string) {
	if r.Script == "" {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(d.scripts, func(_ Key, old agreement) bool { return now.After(old.ends) })
	if len(d.scripts) < maxRequests {
		d.scripts[r.scriptKey()] = agreement{by, now.Add(maxScript)}
	}
	for _, e := range d.requests {
		if e.script == r.scriptKey() && e.verdict == "" && e.decided != nil {
			e.verdict, e.by = Accept, by
			e.decided()
		}
	}
}

// outcome returns nil if the answer is to accept. by is the admin who gave it, "" for the
// client's person.
func (d *Desk) outcome(r *Request, said Answer, by string) error {
	d.log.Info("a person was asked about a call", append(r.fields(), zap.String("answer", string(said)), zap.String("by", cmp.Or(by, "the client's person")))...)
	switch said {
	case AcceptAll:
		d.agree(r, by)
		return nil
	case Accept:
		return nil
	case Cancel:
		return &Refused{Request: *r, Why: Closed, By: by}
	}
	return &Refused{Request: *r, Why: Declined, By: by}
}

// recorded are the answers in the audit log.
var recorded = map[Answer]string{Accept: "approved", AcceptAll: "approved with all such calls of the script", Decline: "declined", Cancel: "the question was closed"}

// record records the answer of the client's person, "" if no answer came in time.
func (d *Desk) record(ctx context.Context, r *Request, said Answer) {
	who := audit.ActorOf(ctx)
	e := audit.Event{Action: audit.Approval, Outcome: audit.Refused, Principal: cmp.Or(who.Principal, r.principal()), From: who.From, Target: r.Server + ":" + r.Tool}
	if e.Reason = cmp.Or(recorded[said], errLate.Error()); said == Accept || said == AcceptAll {
		e.Outcome = audit.OK
	}
	if r.Client != "" {
		e.Reason += "; client " + r.Client
	}
	d.audit.Record(e)
}

// redeem returns the answer of an admin to a request that was put on the desk before, "" without
// an answer. An approval is used up, a refusal stays until it expires.
func (d *Desk) redeem(r *Request, key Key) (said Answer, by string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sweep()
	if a, ok := d.scripts[r.scriptKey()]; r.Script != "" && ok && time.Now().Before(a.ends) {
		return AcceptAll, a.by
	}
	e := d.posted[key]
	if e == nil {
		return "", ""
	}
	if said = e.verdict; said == AcceptAll && (r.Script == "" || e.script != r.scriptKey()) {
		said = Accept // the admin saw another script
	}
	if said == Accept || said == AcceptAll {
		d.remove(e)
	}
	return said, e.by
}

// post leaves a request on the desk, unless it is there already.
func (d *Desk) post(r *Request, key Key) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sweep()
	e := d.posted[key]
	if e == nil {
		if e = d.add(r, key, nil); e == nil {
			return &Refused{Request: *r, Why: Full}
		}
		d.posted[key] = e
		d.log.Info("a call waits for approval on the page", r.fields()...)
	}
	return &Refused{Request: *r, Why: Waits, Until: e.Expires}
}

// add adds a request; it returns nil if the desk is full or the principal has put too many there. d.mu
// must be held.
func (d *Desk) add(r *Request, key Key, decided func()) *deskRequest {
	now := time.Now()
	if len(d.requests) >= maxRequests || len(d.recent[r.Principal]) >= maxOfPrincipal {
		return nil
	}
	e := &deskRequest{key: key, decided: decided, Pending: Pending{
		ID: rand.Text(), Principal: r.principal(), Profile: r.Profile, Client: name(r.Client), Server: r.Server, Tool: r.Tool,
		Reason: r.Reason, Script: r.Script, Asking: decided != nil && r.Page == nil, Since: now, Expires: now.Add(Lifetime), Hash: hashOf(r.Arguments),
	}}
	if r.Script != "" {
		e.script = r.scriptKey()
	}
	e.Arguments, e.Whole = indented(r.Arguments, maxListed)
	if r.Others != nil {
		e.Others, _ = indented(r.Others, maxListed)
	}
	d.requests[e.ID] = e
	d.recent[r.Principal] = append(d.recent[r.Principal], now)
	d.changed.Notify()
	return e
}

// take takes the request of a call that no longer waits from the desk. It returns the
// answer of an admin, "" without an answer. e may be nil.
func (d *Desk) take(e *deskRequest) (said Answer, by string) {
	if e == nil {
		return "", ""
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.requests[e.ID] == e {
		d.remove(e)
	}
	return e.verdict, e.by
}

// sweep removes the requests that have expired. d.mu must be held.
func (d *Desk) sweep() {
	now := time.Now()
	for _, e := range d.requests {
		if !now.Before(e.Expires) {
			d.remove(e)
		}
	}
	for principal, times := range d.recent {
		times = slices.DeleteFunc(times, func(t time.Time) bool { return now.Sub(t) >= Lifetime })
		if d.recent[principal] = times; len(times) == 0 {
			delete(d.recent, principal)
		}
	}
}

// remove removes a request. d.mu must be held.
func (d *Desk) remove(e *deskRequest) {
	delete(d.requests, e.ID)
	if d.posted[e.key] == e {
		delete(d.posted, e.key)
	}
	d.changed.Notify()
}

// Changed returns a channel that is closed at the next change of the list of List. The
// end of a request is no such change: each says when it expires.
func (d *Desk) Changed() <-chan struct{} { return d.changed.Next() }

// List returns the requests that wait for an answer, the oldest first.
func (d *Desk) List() []Pending {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sweep()
	all := []Pending{}
	for _, e := range d.requests {
		if e.verdict == "" {
			all = append(all, e.Pending)
		}
	}
	slices.SortFunc(all, func(a, b Pending) int { return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.ID, b.ID)) })
	return all
}

// ErrGone is the error for a request that no longer waits.
var ErrGone = errors.New("this request was answered already, was withdrawn, or has expired")

// Decide answers a request. With Accept its call is made once: at once if it waits, else when the client sends it again within a
// [Lifetime]; AcceptAll is so for further calls of the tool by the same script, too. With another answer, the call fails. by is the admin.
func (d *Desk) Decide(id string, said Answer, by string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sweep()
	e := d.requests[id]
	if e == nil || e.verdict != "" {
		return ErrGone
	}
	e.verdict, e.by, e.Expires = said, cmp.Or(by, "an admin"), time.Now().Add(Lifetime)
	if e.decided != nil {
		e.decided()
	}
	d.changed.Notify()
	return nil
}
