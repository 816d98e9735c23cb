// Package roster knows which routers of a cluster live.
//
// Each router says once a second that it lives, with how busy its shared servers are. A router that
// was not heard for [Silence] is lost: its calls and servers end. The signature of a beat is checked
// before anything in it counts. Beats of nodes that are not trusted only say that there are such
// nodes; they can neither take a name nor make a server appear.
package roster

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/cluster/internal/count"
	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
	"github.com/mcp-metarouter/metarouter/cluster/internal/link"
	"github.com/mcp-metarouter/metarouter/internal/rate"
	"github.com/mcp-metarouter/metarouter/internal/signal"
)

const (
	// Interval is the time between beats.
	Interval = time.Second

	// Silence is the time without a beat after which a router is lost. With the time between two
	// checks it is less than 3 s.
	Silence = 2800 * time.Millisecond

	checkEvery  = 100 * time.Millisecond
	pingEvery   = 5 * time.Second
	pingsAtOnce = 8 // of those that a beat sends along

	// frozen is a delay of our own checks that says that we did not run: then silence of others
	// says nothing.
	frozen = time.Second
)

// Bounds of the tables.
const (
	maxRouters   = 4000             // that are trusted, alive or lately so
	perNode      = 64               // of these, with one key
	maxUntrusted = 1000             // keys
	keep         = 10 * time.Minute // lost routers are remembered, so that old beats do not revive them
	maxQueue     = 4096             // frames that wait to be verified
)

// Verifications a second. Beats claim to be of a key before their signature is checked, so that
// these bounds are all that limits who may have us compute.
const (
	perTrusted   = 200
	perUntrusted = 2
	allUntrusted = 50
)

// Options configure a Roster. All but the last two must be set.
type Options struct {
	Wire    link.Wire
	Cluster string
	Node    string // our name, before conflicts
	Version string // of this router

	// Trusted reports whether a node is trusted. The own key is always trusted.
	Trusted func(key string) bool

	// State returns the parts of our beat that change: Epoch, Revision, Leaving and Load. nil is a
	// router that does not beat.
	State func() frame.Beating

	Counts *count.Counts // of dropped frames; may be nil
	Log    *zap.Logger   // may be nil
}

// A Roster knows the routers of a cluster. Its methods may be called by many goroutines at once.
type Roster struct {
	options Options
	self    frame.Address
	queue   chan *frame.Frame
	limits  limits

	mu        sync.Mutex // guards the fields below
	routers   map[frame.Address]*router
	untrusted map[string]*Sender
	names     map[string]string // by key; see nameAll
	pings     map[string]ping   // that were not answered, by nonce
	changed   signal.Change
	closed    chan struct{}
	checked   time.Time
	count     uint64 // of our beats
}

// limits bound how many signatures are checked.
type limits struct{ trusted, untrusted, all *rate.Limiter }

// A router is a running router that is not this one.
type router struct {
	address  frame.Address
	beat     frame.Beating // the latest; zero if it only called us
	seen     time.Time     // when, by our clock
	clock    time.Duration // how far its clock is ahead of ours
	ahead    time.Duration // the same, as a quick ping measured it
	measured bool          // there was one
	latency  time.Duration
	pinged   time.Time
	unheard  int       // pings in a row without an answer
	since    time.Time // when it began to share
	lost     chan struct{}
	dead     bool // lost is closed
}

// New returns a Roster without nodes.
func New(o Options) *Roster {
	if o.Log == nil {
		o.Log = zap.NewNop()
	}
	r := &Roster{
		options:   o,
		self:      o.Wire.Self(),
		queue:     make(chan *frame.Frame, maxQueue),
		limits:    limits{rate.New(perTrusted, 0), rate.New(perUntrusted, 0), rate.New(allUntrusted, 0)},
		routers:   map[frame.Address]*router{},
		untrusted: map[string]*Sender{},
		pings:     map[string]ping{},
		closed:    make(chan struct{}),
	}
	close(r.closed)
	r.nameAll()
	return r
}

// Run beats and listens until ctx ends. It says goodbye then, so that others need not wait until we
// are lost.
func (r *Roster) Run(ctx context.Context) error {
	var verifying sync.WaitGroup
	verifying.Go(func() { r.verify(ctx) })
	defer verifying.Wait()
	beats, checks := time.NewTicker(Interval), time.NewTicker(checkEvery)
	defer beats.Stop()
	defer checks.Stop()
	r.mu.Lock()
	r.checked = time.Now()
	r.mu.Unlock()
	r.beat(false)
	for {
		select {
		case <-beats.C:
			r.beat(false)
			r.ping()
		case <-checks.C:
			r.check()
		case <-ctx.Done():
			r.beat(true)
			return nil
		}
	}
}

// Beat sends a beat at once, for others to hear of a change of our state.
func (r *Roster) Beat() { r.beat(false) }

// beat says that we live, or that we have ended.
func (r *Roster) beat(gone bool) { r.beatTo(frame.Address{}, gone) }

// beatTo says it to one router, or to all by the zero address.
func (r *Roster) beatTo(to frame.Address, gone bool) {
	if r.options.State == nil {
		return
	}
	b := r.options.State()
	b.Cluster, b.Node, b.Version = r.options.Cluster, r.options.Node, r.options.Version
	b.Leaving, b.Gone = b.Leaving || gone, gone
	r.mu.Lock()
	r.count++
	b.Count = r.count
	r.mu.Unlock()
	// A beat that is not sent is not missed: without a connection, no node gets it.
	if err := r.options.Wire.Send(to, frame.Header{Kind: frame.Beat, Beat: &b}, nil); err != nil {
		r.options.Log.Debug("can't send a beat", zap.Error(err))
	}
}

// check finds out who is lost.
func (r *Roster) check() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	late := now.Sub(r.checked) - checkEvery
	r.checked = now
	changed := false
	for address, one := range r.routers {
		if late > frozen && !one.dead { // we did not listen
			one.seen = now
		}
		limit := Silence
		if len(r.queue) > 0 { // a beat of it may wait there
			limit *= 2
		}
		switch quiet := now.Sub(one.seen); {
		case !one.dead && quiet >= limit:
			r.lose(one)
			changed = true
		case one.dead && quiet > keep:
			delete(r.routers, address)
			changed = true
		}
	}
	for key, s := range r.untrusted {
		if now.Sub(s.LastSeen) > keep {
			delete(r.untrusted, key)
			changed = true
		}
	}
	r.forgetPings(now)
	if changed {
		r.nameAll()
		r.changed.Notify()
	}
}

// lose notes that a router is lost. r.mu must be held.
func (r *Roster) lose(one *router) {
	one.dead = true
	close(one.lost)
}

// Changed returns a channel that is closed at the next change of Peers but for loads, latencies,
// clocks and times.
func (r *Roster) Changed() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.changed.Next()
}

// Lost returns a channel that is closed when the router is lost or has left: at once if that is so
// already. A router that was not heard yet gets the time in which it should be.
func (r *Roster) Lost(a frame.Address) <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if one, ok := r.routers[a]; ok {
		return one.lost
	}
	if !r.makeRoom(a.Key) {
		return r.closed
	}
	one := &router{address: a, seen: time.Now(), lost: make(chan struct{})}
	r.routers[a] = one
	return one.lost
}

// Trust is called when other nodes are trusted than before.
func (r *Roster) Trust() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for address, one := range r.routers {
		if !r.trusted(address.Key) {
			if !one.dead {
				r.lose(one)
			}
			delete(r.routers, address)
		}
	}
	for key := range r.untrusted {
		if r.trusted(key) {
			delete(r.untrusted, key)
		}
	}
	r.nameAll()
	r.changed.Notify()
}

func (r *Roster) trusted(key string) bool { return key == r.self.Key || r.options.Trusted(key) }
