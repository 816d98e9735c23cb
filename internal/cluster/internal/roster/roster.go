// Package roster knows which routers of a cluster live.
//
// A router lives while its load in the directory changes. If that stops, the router is asked by a
// ping, since JetStream may be away: without an answer it is lost. Values of nodes that are not
// trusted only say that there are such nodes; they can neither take a name nor make a server appear.
package roster

import (
	"context"
	"crypto/rand"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/cluster/internal/stream"
	"github.com/mcp-metarouter/metarouter/internal/signal"
)

const (
	// silence is the time without a load after which a router is pinged, and pingWait the time for
	// its answer: a router that has ended is lost within 3 s.
	silence  = 1800 * time.Millisecond
	pingWait = time.Second
	echoWait = 2 * time.Second // for the answer to a ping to this router

	checkEvery = 100 * time.Millisecond
	pingEvery  = 10 * time.Second // for the latency

	// frozen is a delay of our own checks that says that we did not run: then silence of others
	// says nothing.
	frozen = time.Second

	keep = 10 * time.Minute // how long lost routers are remembered
)

// Bounds of the tables.
const (
	maxRouters = 2000 // that are trusted, alive or lately so
	maxOthers  = 1000 // keys
	maxLoad    = 64 << 10
)

// Options configure a Roster.
type Options struct {
	Key     string // of this node
	Cluster string
	Node    string                // our name, before conflicts
	Trusted func(key string) bool // true for the key of this node

	// Ping sends a ping to the instance of a router, or to this router for "", for Answered to be
	// called with the token. It does not wait, and reports false without a connection.
	Ping func(instance, token string) bool
	Log  *zap.Logger
}

// A Roster knows the routers of a cluster but this one. Its methods may be called by many
// goroutines at once.
type Roster struct {
	options Options

	mu      sync.Mutex // guards the fields below
	routers map[stream.Address]*router
	others  map[string]*Other
	names   map[string]string // by key; nil if they are to be found again
	changed signal.Change
	checked time.Time
	echo    call      // the ping to this router that was not answered yet; zero after the answer
	sent    time.Time // when it was sent
	echoed  time.Time // when the last one was sent that was answered
}

// A router is a running router that is not this one, or was one.
type router struct {
	Peer   // but for Name and Alive
	state  state
	load   map[string]ServerLoad
	count  uint64 // of loads
	token  string // of the ping that was not answered yet; "" after the answer
	pinged time.Time
}

// A state says whether a router lives.
type state int

const (
	unproven state = iota // it is stored, and did not show that it lives
	alive
	dead
)

// A Load says how busy a router is.
type Load struct {
	Servers map[string]ServerLoad `json:"servers,omitempty"`
}

// A ServerLoad says how a server is. A server without one is ready and has no calls.
type ServerLoad struct {
	State   string `json:"state,omitempty"`
	Calls   int    `json:"calls,omitempty"` // that run
	Waiting int    `json:"waiting,omitempty"`
}

// An Other is a node that is not trusted.
type Other struct {
	Key, Node, Version string
	LastSeen           time.Time
	noted              time.Time // when its announcement came
}

// New returns a Roster without routers.
func New(o Options) *Roster {
	return &Roster{options: o, routers: map[stream.Address]*router{}, others: map[string]*Other{}}
}

// Run finds out who lives until ctx ends.
func (r *Roster) Run(ctx context.Context) {
	signal.Poll(ctx, checkEvery, func() (done bool) { r.check(); return false })
}

// A call is a ping to send.
type call struct{ instance, token string }

// check finds out who is lost, and pings those that may be.
func (r *Roster) check() {
	r.mu.Lock()
	now := time.Now()
	late := !r.checked.IsZero() && now.Sub(r.checked) > checkEvery+frozen
	r.checked = now
	var pings []call
	latencies, doubt := 1, false
	for _, one := range r.routers {
		if late { // we did not listen
			one.LastSeen, one.token = now, ""
		}
		quiet := now.Sub(one.LastSeen)
		switch {
		case one.state == dead && min(quiet, now.Sub(one.pinged)) > keep: // a stored one may have been quiet before
			r.remove(one.Address)
		case one.state == dead:
		case one.token != "" && now.Sub(one.pinged) < pingWait:
		case one.token != "" && one.pinged.After(one.LastSeen) && (one.state == unproven || quiet >= silence):
			// If our own ping, which was sent later, was not answered either, the delay is ours.
			if r.echoed.Before(one.pinged.Add(pingWait)) {
				doubt = true
			} else {
				r.lose(one)
			}
		case one.state == unproven, one.state == alive && quiet >= silence:
			pings = append(pings, one.ping(now))
		case one.state == alive && latencies > 0 && now.Sub(one.pinged) > pingEvery:
			latencies--
			pings = append(pings, one.ping(now))
		}
	}
	for key, o := range r.others {
		if min(now.Sub(o.LastSeen), now.Sub(o.noted)) > keep {
			delete(r.others, key)
			r.changed.Notify()
		}
	}
	if r.echo.token != "" && now.Sub(r.sent) > echoWait {
		r.echo, r.echoed = call{}, now
	}
	if doubt && r.echo.token == "" {
		r.echo, r.sent = call{token: rand.Text()}, now
		pings = append(pings, r.echo)
	}
	r.mu.Unlock()
	for _, p := range pings {
		if !r.options.Ping(p.instance, p.token) && p.instance == "" {
			r.Answered(p.token, true) // no answer of another router will come
		}
	}
}

// ping notes that a router is pinged.
func (one *router) ping(now time.Time) call {
	one.token, one.pinged = rand.Text(), now
	return call{one.Instance, one.token}
}

// Answered notes the answer to a ping: that the router lives, or that no such router is connected.
func (r *Roster) Answered(token string, lives bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if token == r.echo.token {
		r.echo, r.echoed = call{}, r.sent
		return
	}
	for _, one := range r.routers {
		if one.token == "" || one.token != token {
			continue
		}
		one.token = ""
		now := time.Now()
		switch {
		case lives:
			if one.Latency == 0 {
				r.changed.Notify()
			}
			one.Latency = now.Sub(one.pinged)
			r.lives(one, now)
		case one.state == unproven || now.Sub(one.LastSeen) >= silence:
			r.lose(one)
		}
	}
}

// lives notes that a router is alive now. r.mu must be held.
func (r *Roster) lives(one *router, now time.Time) {
	one.LastSeen = now
	if one.state != alive && !one.Leaving {
		one.state = alive
		r.edited()
	}
}

// lose notes that a router is lost. r.mu must be held.
func (r *Roster) lose(one *router) {
	if one.state != dead {
		one.state, one.token, one.load = dead, "", nil
		r.edited()
	}
}

// remove forgets a router. r.mu must be held.
func (r *Roster) remove(address stream.Address) {
	delete(r.routers, address)
	r.edited()
}

// edited notes that Peers has changed. r.mu must be held.
func (r *Roster) edited() {
	r.names = nil
	r.changed.Notify()
}

// Doubt has a router pinged that could not be reached.
func (r *Roster) Doubt(address stream.Address) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one := r.routers[address]; one != nil && one.state == alive {
		one.LastSeen = one.LastSeen.Add(-silence)
	}
}

// SetTrouble notes why a router can't be called, or "" if it can.
func (r *Roster) SetTrouble(address stream.Address, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one := r.routers[address]; one != nil && one.Trouble != text {
		one.Trouble = text
		r.changed.Notify()
	}
}

// Trust is called when other nodes are trusted than before.
func (r *Roster) Trust() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for address := range r.routers {
		if !r.options.Trusted(address.Key) {
			r.remove(address)
		}
	}
	for key := range r.others {
		if r.options.Trusted(key) {
			delete(r.others, key)
		}
	}
	r.edited()
}

// Changed returns a channel that is closed at the next change of Peers or Others but for loads,
// latencies after the first one of a router, and times.
func (r *Roster) Changed() <-chan struct{} { return r.changed.Next() }
