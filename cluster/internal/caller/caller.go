package caller

import (
	"context"
	"crypto/rand"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/cluster/internal/count"
	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
	"github.com/mcp-metarouter/metarouter/cluster/internal/link"
	"github.com/mcp-metarouter/metarouter/cluster/internal/transfer"
	"github.com/mcp-metarouter/metarouter/internal/session"
)

// Options configure a Caller. All but Counts must be set.
type Options struct {
	Wire   link.Wire
	Budget *transfer.Budget // of the bodies that this router receives
	Log    *zap.Logger
	Counts *count.Counts // may be nil

	// Lost returns a channel that is closed when the router at the address is lost or has left.
	Lost func(frame.Address) <-chan struct{}

	// OnMessage is called with messages of servers that belong to no call. server is the name that
	// the server has here; owner is the only client that the message is for, nil if several may
	// get it. It must not block.
	OnMessage func(server string, owner session.Client, m session.Message)
}

// A Target is a server of another node.
type Target struct {
	To     frame.Address
	Node   string // its name
	Name   string // of the server here, such as "gpu@box"
	Server string // by the name that its own node has for it
	Info   session.Info
	Gone   <-chan struct{} // closed when the server must not be called any more
}

// A Caller makes the calls of a router's clients on other nodes. Its methods may be called by many
// goroutines at once.
type Caller struct {
	Options
	life    context.Context // ends with Run
	end     context.CancelCauseFunc
	homes   homes
	events  events
	endings endings
	waiting atomic.Int64 // bytes in the inboxes of all exchanges

	mu        sync.Mutex // guards the fields below
	running   sync.WaitGroup
	exchanges map[string]*exchange
	asked     int // exchanges that servers have begun
}

func New(o Options) *Caller {
	c := &Caller{Options: o, exchanges: make(map[string]*exchange)}
	c.life, c.end = context.WithCancelCause(context.Background())
	c.homes.init()
	c.events.init()
	c.endings.init()
	return c
}

var errLeft = errors.New("this router has left the cluster; the call can be made again when it has joined")

// Run passes on messages of servers that belong to no call, until ctx ends. Then calls under way
// fail, and Run returns when no goroutine of the Caller is left. It may be called once.
func (c *Caller) Run(ctx context.Context) error {
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	ended := time.NewTicker(endedDelay)
	defer ended.Stop()
	for ctx.Err() == nil {
		select {
		case <-c.events.came:
			c.hear()
		case <-sweep.C:
			c.homes.sweep(c.Lost)
			c.events.sweep()
		case <-ended.C:
			for to, ids := range c.endings.all() {
				c.ended(to, ids)
			}
		case <-ctx.Done():
		}
	}
	c.mu.Lock()
	c.end(errLeft)
	c.mu.Unlock()
	for to, ids := range c.endings.all() {
		c.ended(to, ids)
	}
	c.running.Wait()
	return nil
}

// sweepEvery is how often nodes and servers that are gone are forgotten.
const sweepEvery = 10 * time.Second

// start runs f on a goroutine for which Run waits. It reports false if Run has ended.
func (c *Caller) start(f func()) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life.Err() != nil {
		return false
	}
	c.running.Go(f)
	return true
}

// Knows reports whether an ID is the ID of a call or another exchange that this router has with the
// one at the address. Frames that either side may send, pull, part and cancel, belong to the Caller
// then.
func (c *Caller) Knows(with frame.Address, id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.exchanges[id]
	return e != nil && e.to == with
}

// Receive takes a frame of a trusted node for this router. It does not check the signature, and
// does not wait.
func (c *Caller) Receive(f *frame.Frame) {
	h := &f.Header
	if h.Kind == frame.Event {
		if !c.events.put(f) {
			c.Counts.Dropped(count.Overflow)
		}
		return
	}
	c.mu.Lock()
	e := c.exchanges[h.Call]
	c.mu.Unlock()
	if e == nil && h.Kind == frame.Question && h.Home != "" {
		e = c.askedOutside(h)
	}
	if e == nil || e.to != h.From {
		c.Counts.Dropped(count.Unwanted)
		return
	}
	if !e.in.put(f) {
		c.Counts.Dropped(count.Overflow)
	}
}

// newExchange returns an exchange of frames with a router, which receives frames from open to stop.
func (c *Caller) newExchange(id string, to frame.Address, server string, from session.Client) *exchange {
	e := &exchange{caller: c, id: id, to: to, server: server, from: from}
	e.in.init(&c.waiting)
	return e
}

func (c *Caller) open(e *exchange) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.exchanges[e.id] = e
}

// close closes an exchange, and drops the frames that wait.
func (c *Caller) close(e *exchange) {
	c.mu.Lock()
	delete(c.exchanges, e.id)
	c.mu.Unlock()
	e.in.close()
}

// verified reports whether a frame is signed by the node that it names.
func (c *Caller) verified(f *frame.Frame) bool {
	if f.Verify() != nil {
		c.Counts.Dropped(count.Signature)
		return false
	}
	return true
}

// newID returns the ID of a call. It can't be guessed.
func newID() string { return rand.Text() }
