package execute

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/status"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// A Service is a server that runs on several nodes. Its replicas offer the same, so that a request may go to any of them. Each has a session, a
// limiter and a circuit breaker of its own. A Service is not modified.
type Service struct {
	// Own is the replica of this router, which has the name of the service; "" without one.
	// Others are the replicas of other nodes, by the names of their servers.
	Own    string
	Others []string

	// Load returns how busy one of Others is, as its node has said last: the calls that run or wait, with the calls of this router, and the limit of
	// calls at once, 0 being no limit. heard differs each time the node says it.
	Load func(replica string) (calls, limit int, heard uint64)

	// Keeps reports whether Own has a session that is the client's alone; home is its session.
	Keeps func(home session.Client) bool
}

// all returns the names of all replicas.
func (s *Service) all() []string {
	if s.Own == "" {
		return s.Others
	}
	return append([]string{s.Own}, s.Others...)
}

// A candidate is a replica that may take a request.
type candidate struct {
	standing
	server string
	own    bool
}

// usualLimit stands for the limit of a server without one.
const usualLimit = 8

// load returns how many times as many calls as it may run the replica has.
func (c *candidate) load() float64 {
	if c.limit > 0 {
		return float64(c.calls) / float64(c.limit)
	}
	return float64(c.calls) / usualLimit
}

// choose returns the replica that takes a request, nil without one: the own one while it is up and has room; else the less busy one of two random
// ones that are up and have room, since gateways that all choose the least busy one would overrun it; else the least busy one of those that are up,
// or that are coming. shuffle is as [rand.Shuffle].
func choose(all []candidate, shuffle func(n int, swap func(i, j int))) *candidate {
	some := slices.DeleteFunc(slices.Clone(all), func(c candidate) bool { return c.state != up || c.isFull() })
	if i := slices.IndexFunc(some, func(c candidate) bool { return c.own }); i >= 0 {
		return &some[i]
	}
	switch {
	case len(all) == 0:
		return nil
	case len(some) == 0:
		some = all
	default:
		shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
		some = some[:min(len(some), 2)]
	}
	best := slices.MinFunc(some, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.state, b.state), cmp.Compare(a.load(), b.load()))
	})
	return &best
}

// candidateOf returns how a replica is. It reports false if it is gone.
func (e *Executor) candidateOf(s *Service, replica string) (c candidate, ok bool) {
	state := e.Sessions.State(replica)
	if state == "" {
		return c, false
	}
	c = candidate{e.standingOf(replica, e.Sessions.Policy(replica)), replica, replica == s.Own}
	l := e.limiters.of(replica)
	var calls int
	var heard uint64
	if !c.own {
		calls, c.limit, heard = s.Load(replica)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if state == status.Restarting && !l.isOpen() { // sooner than one that has failed
		c.state = coming
	}
	if heard != l.heard { // the node's number counts our calls of that moment
		l.heard, l.others = heard, max(0, calls-l.active)
	}
	c.calls += l.others
	return c, true
}

// replicaFor returns the replica that takes a request of a client, if possible not one to avoid.
func (e *Executor) replicaFor(service string, s *Service, from session.Client, avoid []string) string {
	kept := e.kept.of(from, service)
	all := make([]candidate, 0, 8)
	for _, replica := range s.all() {
		c, ok := e.candidateOf(s, replica)
		if !ok || slices.Contains(avoid, replica) {
			continue
		}
		if replica == kept && c.state != down && (!c.own || s.Keeps(from.Home())) {
			return replica
		}
		all = append(all, c)
	}
	if c := choose(all, rand.Shuffle); c != nil {
		return c.server
	}
	if len(avoid) > 0 {
		return e.replicaFor(service, s, from, nil)
	}
	return s.all()[0] // the error of its session explains
}

// useReplica turns the delivery from a service to one of its replicas: to that with the name only,
// unless it is "". The delivery must have the service's name and policy.
func (d *delivery) useReplica(only string) {
	s, service := d.policy.Service, d.server
	replica := only
	if only == "" {
		replica = d.e.replicaFor(service, s, d.from, d.avoid)
		d.avoid = append(d.avoid, replica)
	}
	d.service = service
	if replica == s.Own {
		return
	}
	theirs := d.e.Sessions.Policy(replica)
	d.server = replica
	d.policy.Gateway, d.policy.Timeout, d.policy.Timeouts, d.policy.MaxConcurrent = theirs.Gateway, theirs.Timeout, theirs.Timeouts, theirs.MaxConcurrent
	switch { // both nodes must want that a call is repeated
	case d.policy.Retry == NeverRetry || theirs.Retry == NeverRetry:
		d.policy.Retry = NeverRetry
	case theirs.Retry == IfHarmless:
		d.policy.Retry = IfHarmless
	}
	if d.tool != nil && s.Own != "" {
		d.what = d.tool.Name // other nodes have the tools under the names that clients see
	}
}

// keep notes where the client has a session of its own, after an attempt at a replica.
func (d *delivery) keep() {
	if d.from == nil || d.from.Home() == nil {
		return
	}
	home, s := d.from.Home(), d.policy.Service
	if d.server == s.Own && s.Keeps(home) || d.request.Ran != nil && d.request.Ran.Kept {
		d.e.kept.put(home, d.service, d.server)
	}
}

// A renamed client knows the replicas of a service by the service's name alone.
type renamed struct {
	session.Client
	service string
}

// Unwrap returns the client, for [session.As].
func (r *renamed) Unwrap() session.Client { return r.Client }

// client returns the client as the server of the delivery gets it.
func (d *delivery) client() session.Client {
	if d.from == nil || d.service == "" || d.service == d.server {
		return d.from
	}
	return &renamed{d.from, d.service}
}

// Notify implements [session.Client].
func (r *renamed) Notify(_ string, m session.Message) { r.Client.Notify(r.service, m) }

// Ask implements [session.Client].
func (r *renamed) Ask(ctx context.Context, _ string, m session.Message) (json.RawMessage, error) {
	return r.Client.Ask(ctx, r.service, m)
}

// maxKept bounds the remembered replicas. If there are more, all are forgotten.
const maxKept = 10_000

// kept are the replicas with which clients have sessions of their own. The zero value is empty.
type kept struct {
	mu  sync.Mutex // guards all
	all map[keptKey]string
}

// A keptKey is the session of a client, and a service.
type keptKey struct {
	home    session.Client
	service string
}

// of returns the replica of a service with which the client has a session of its own, "" without one.
func (k *kept) of(from session.Client, service string) string {
	if from == nil {
		return ""
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.all[keptKey{from.Home(), service}]
}

func (k *kept) put(home session.Client, service, replica string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all == nil || len(k.all) >= maxKept {
		k.all = make(map[keptKey]string)
	}
	k.all[keptKey{home, service}] = replica
}

// ForgetClient forgets a client that has left. home is its session.
func (e *Executor) ForgetClient(home session.Client) {
	e.cache.forget(home)
	e.kept.mu.Lock()
	defer e.kept.mu.Unlock()
	maps.DeleteFunc(e.kept.all, func(k keptKey, _ string) bool { return k.home == home })
}

// Keys of values that a client sends back to the server. Values of replicas on other nodes begin with the name of the replica, escaped, and a slash.
const (
	taskID       = "taskId"
	requestState = "requestState"
)

// mark returns the result of a replica with its name in the values that are sent back to it.
func (d *delivery) mark(raw json.RawMessage) json.RawMessage {
	if d.server == d.policy.Service.Own {
		return raw
	}
	for _, key := range []string{taskID, requestState} {
		if !bytes.Contains(raw, []byte(`"`+key+`"`)) {
			continue
		}
		if value, ok := wire.String(wire.Member(raw, key)); ok {
			raw = wire.SetMember(raw, key, wire.AppendString(nil, url.PathEscape(d.server)+"/"+value))
		}
	}
	return raw
}

// unmark returns the replica to which parameters are sent back, and the parameters as it knows them; "" if any replica can take them.
func (s *Service) unmark(params json.RawMessage, key string) (replica string, _ json.RawMessage, err error) {
	value, ok := wire.String(wire.Member(params, key))
	if !ok {
		return "", params, nil
	}
	escaped, rest, marked := strings.Cut(value, "/")
	if name, err := url.PathUnescape(escaped); marked && err == nil && slices.Contains(s.Others, name) {
		return name, wire.SetMember(params, key, wire.AppendString(nil, rest)), nil
	}
	if s.Own == "" {
		return "", nil, session.InvalidParams("the " + key + " is not valid: the node that gave it out is gone, or never did")
	}
	return s.Own, params, nil
}

// resume finds the replica that must take the call, since the call continues one that it has begun. It
// fails if a router that has ended may have made the call, and it must not be made twice.
func (x *execution) resume() (err error) {
	if d := &x.delivery; session.IsResent(d.meta) {
		if !d.repeatable() {
			return session.ErrEnded
		}
		d.meta = wire.DeleteMember(d.meta, session.Resent)
	}
	if s := x.delivery.policy.Service; s != nil && !x.call.Here {
		x.only, x.call.Params, err = s.unmark(x.call.Params, requestState)
	}
	return err
}

// addReplicas lets the call be tried at other replicas of its server, before it turns to stand-ins. It waits only briefly for each to start.
func (x *execution) addReplicas() {
	s := x.delivery.policy.Service
	if s == nil || x.call.Here || x.only != "" {
		return
	}
	var all []target
	for range min(len(s.all())-1, maxPlaces-1) {
		all = append(all, target{x.call.Tool, x.delivery.policy, shortWait})
	}
	x.targets = append(all, x.targets...)
}

// relayToReplica turns a delivery that is no call to a replica of its server. next turns it to another one after a failure, if that may be.
func (d *delivery) relayToReplica() (next func(context.Context, error) bool, err error) {
	service, policy := d.server, d.policy
	key := requestState
	if strings.HasPrefix(d.request.Method, "tasks/") {
		key = taskID
	}
	only, params, err := policy.Service.unmark(d.request.Params, key)
	if err != nil {
		return nil, err
	}
	d.request.Params = params
	turn := func() {
		d.server, d.policy, d.session, d.tries, d.sent, d.deadline = service, policy, nil, 0, 0, time.Time{}
		d.useReplica(only)
		d.request.From = d.client()
		if d.request.Origin != nil {
			origin := *d.request.Origin
			origin.As = service
			d.request.Origin = &origin
		}
	}
	turn()
	return func(ctx context.Context, err error) bool {
		if only != "" || len(d.avoid) >= min(len(policy.Service.all()), maxPlaces) {
			return d.pauseForRetry(ctx, err)
		}
		if ctx.Err() != nil || !d.mayRepeat(err) {
			return false
		}
		turn()
		return true
	}, nil
}
