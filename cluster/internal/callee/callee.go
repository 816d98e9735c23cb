package callee

import (
	"container/list"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/cluster/internal/count"
	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
	"github.com/mcp-metarouter/metarouter/cluster/internal/link"
	"github.com/mcp-metarouter/metarouter/cluster/internal/transfer"
	"github.com/mcp-metarouter/metarouter/internal/signal"
)

const (
	// farewellTime bounds how long cancelled calls may take to end when the node leaves.
	farewellTime = 2 * time.Second

	// maxVerifying bounds the offers with signatures that are not checked yet, and maxEarly the
	// bytes of parts that wait to be put together.
	maxVerifying = 512
	maxEarly     = 64 << 20

	// maxControl bounds the frames that belong to no call and wait to be handled.
	maxControl = 4096

	// maxID bounds the IDs that gateways give to calls and clients, in bytes.
	maxID = 128
)

// Options configure a Callee. All but Counts must be set.
type Options struct {
	Wire   link.Wire
	Host   Host
	Budget *transfer.Budget // of the bodies that the node receives
	Log    *zap.Logger
	Counts *count.Counts

	// The functions are called often, by many goroutines at once, and must not block.
	Trusted func(key string) bool                       // the node may call this one
	Shared  func(server string) bool                    // other nodes may call the server now
	Name    func(key string) string                     // the name of the node
	Lost    func(gateway frame.Address) <-chan struct{} // closed when the gateway is gone
	Age     func(h *frame.Header) time.Duration         // how long ago the frame was sent; 0 if that is not known
}

// A Callee carries out calls that other nodes ask this one for. Its methods may be called by many
// goroutines at once.
type Callee struct {
	Options
	wall    func() time.Time // the wall clock
	life    context.Context  // of calls, which a node that leaves lets end
	end     context.CancelCauseFunc
	control queue[*frame.Frame] // frames that belong to no call
	dropped counters
	seen    seen
	early   atomic.Int64 // bytes of parts that wait to be put together
	levels  leveling
	pulse   pulse

	mu        sync.Mutex // guards the fields below
	running   sync.WaitGroup
	leaving   bool // no offer is accepted any more
	closed    bool // no goroutine may be started any more
	verifying int  // offers
	calls     map[callID]*call
	gateways  map[frame.Address]*gateway
	usage     map[string]*usage // by key
	total     usage
	watched   map[resource]map[*subscription]bool
	kept      list.List     // of *call with kept results, the oldest first
	changed   signal.Change // when a call ends or is forgotten
}

// New returns a callee. It refuses only calls that its options forbid.
func New(o Options) *Callee {
	c := &Callee{
		Options: o, wall: time.Now,
		calls: make(map[callID]*call), gateways: make(map[frame.Address]*gateway), usage: make(map[string]*usage),
		watched: make(map[resource]map[*subscription]bool),
	}
	c.life, c.end = context.WithCancelCause(context.Background())
	return c
}

var (
	errLeaving = errors.New("the node that ran it is leaving the cluster")
	errClosed  = errors.New("the node has left the cluster")
)

// Run passes on messages of servers, and removes expired results, until ctx ends. Then it cancels
// the calls under way, and waits for their end. The wire must take frames until Run returns; a node
// that leaves in peace calls Leave before. Run may be called once.
func (c *Callee) Run(ctx context.Context) error {
	stop := c.Host.Listen(c.hear)
	defer stop()
	tick, beats := time.NewTicker(time.Second), time.NewTicker(pulseTime)
	defer tick.Stop()
	defer beats.Stop()
	c.pulse.beat(c.wall())
	for ctx.Err() == nil {
		select {
		case <-tick.C:
			c.expireResults()
			c.endUnshared()
		case <-beats.C:
			c.pulse.beat(c.wall())
		case <-ctx.Done():
		}
	}
	c.stop()
	return nil
}

// Leave refuses further calls, and returns when those under way have ended and their gateways have
// the results, or when ctx ends.
func (c *Callee) Leave(ctx context.Context) {
	c.mu.Lock()
	c.leaving = true
	c.mu.Unlock()
	c.await(ctx, func() bool { return c.total.calls == 0 && c.kept.Len() == 0 })
}

func (c *Callee) stop() {
	c.mu.Lock()
	c.leaving = true
	c.mu.Unlock()
	c.end(errLeaving)
	farewell, cancel := context.WithTimeout(context.Background(), farewellTime)
	defer cancel()
	c.await(farewell, func() bool { return c.total.calls == 0 }) // their gateways hear of it
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	for _, address := range c.addresses() {
		c.release(address, errLeaving)
	}
	c.running.Wait()
}

// await waits until done, which is called with c.mu held, or until ctx ends.
func (c *Callee) await(ctx context.Context, done func() bool) {
	for {
		c.mu.Lock()
		over, changed := done(), c.changed.Next()
		c.mu.Unlock()
		if over {
			return
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

// start runs f on a goroutine for which Run waits. It reports false if the node has left.
func (c *Callee) start(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return false
	}
	c.running.Go(f)
	return true
}

// Receive takes a frame that a gateway has sent to this node. It does not check the signature and
// does not wait: goroutines of the callee do.
func (c *Callee) Receive(f *frame.Frame) {
	h := &f.Header
	switch skew := c.wall().Sub(time.UnixMilli(h.Time)); {
	case h.To != c.Wire.Self():
		c.drop("misaddressed")
		return
	case !c.Trusted(h.From.Key):
		c.drop("untrusted")
		return
	case skew.Abs() > maxSkew && h.Kind != frame.Part:
		c.drop("clock")
		return
	case len(h.Call) > maxID || len(h.Home) > maxID:
		c.drop("malformed")
		return
	}
	switch h.Kind {
	case frame.Offer:
		c.offered(f)
	case frame.Start, frame.Cancel, frame.Answer, frame.Poll, frame.Done, frame.Pull:
		if one := c.find(h); one != nil {
			one.receive(f)
		} else if h.Kind == frame.Start || h.Kind == frame.Poll || h.Kind == frame.Done && len(h.Ended) > 0 {
			c.direct(f)
		}
	case frame.Part:
		if one := c.find(h); one != nil {
			one.parts.put(f)
		}
	case frame.Release, frame.Tell, frame.Subscribe, frame.Unsubscribe, frame.Level:
		c.direct(f)
	}
}

// direct has a frame handled that belongs to no call.
func (c *Callee) direct(f *frame.Frame) {
	added, start := c.control.put(f, len(f.Payload), bounds{maxControl, maxEarly})
	if !added {
		c.drop("flooded")
	}
	if start {
		c.start(func() { c.control.drain(c.controlled) })
	}
}

// controlled handles a frame that belongs to no call.
func (c *Callee) controlled(f *frame.Frame) {
	if !c.verified(f) {
		return
	}
	switch f.Header.Kind {
	case frame.Start, frame.Poll:
		c.answerUnknown(f)
	case frame.Subscribe:
		c.subscribe(f)
	case frame.Unsubscribe:
		c.unsubscribe(f.Header.From, f.Header.Call)
	case frame.Release:
		c.releaseHome(f)
	case frame.Tell:
		c.tell(f)
	case frame.Level:
		c.setLevel(f)
	}
}

// verified reports whether the frame is of the node that it names. If so, the results that it says
// have arrived are forgotten.
func (c *Callee) verified(f *frame.Frame) bool {
	if err := f.Verify(); err != nil {
		c.drop("forged")
		return false
	}
	for _, id := range f.Header.Ended {
		c.mu.Lock()
		one := c.calls[callID{f.Header.From, id}]
		c.mu.Unlock()
		if one != nil {
			one.forget()
		}
	}
	return true
}

// find returns the call of a frame; nil for an unknown call.
func (c *Callee) find(h *frame.Header) *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.calls[callID{h.From, h.Call}]
}

// addresses returns the addresses of the gateways.
func (c *Callee) addresses() []frame.Address {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Collect(maps.Keys(c.gateways))
}

// drop counts a dropped frame by reason; see Dropped.
func (c *Callee) drop(reason string) {
	c.dropped.add(reason)
	switch reason {
	case "misaddressed":
		c.Counts.Dropped(count.Recipient)
	case "untrusted":
		c.Counts.Dropped(count.Untrusted)
	case "clock":
		c.Counts.Dropped(count.Clock)
	case "malformed":
		c.Counts.Dropped(count.Garbage)
	case "forged":
		c.Counts.Dropped(count.Signature)
	case "replayed":
		c.Counts.Dropped(count.Repeated)
	case "flooded":
		c.Counts.Dropped(count.Overflow)
	}
}

// counters count by reason. The zero value is ready.
type counters struct {
	mu sync.Mutex // guards n
	n  map[string]uint64
}

func (s *counters) add(reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.n == nil {
		s.n = make(map[string]uint64)
	}
	s.n[reason]++
}

// Dropped returns how many frames and messages were dropped or refused, by reason: "misaddressed",
// "untrusted", "clock", "malformed", "forged", "replayed", "flooded", "busy", "expired", "nonce",
// "unshared", "notifications", "events", "questions" and "unsendable".
func (c *Callee) Dropped() map[string]uint64 {
	c.dropped.mu.Lock()
	defer c.dropped.mu.Unlock()
	return maps.Clone(c.dropped.n)
}
