package caller

import (
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/cluster/internal/count"
	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
	"github.com/mcp-metarouter/metarouter/cluster/internal/transfer"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/signal"
)

const (
	// maxEvents and maxEventBytes bound the events that wait to be passed on.
	maxEvents     = 4096
	maxEventBytes = 16 << 20

	// eventsWait bounds how long a result waits for the events that came before it.
	eventsWait = time.Second
)

// Events are messages of servers that belong to no call.
type events struct {
	came chan struct{} // has an item when there are events

	mu      sync.Mutex // guards the fields below
	waiting []*frame.Frame
	bytes   int
	total   uint64        // events that came, and are handled or wait
	handled uint64        // events that were handled
	moved   chan struct{} // closed when handled grows, then replaced; nil without a waiting goroutine
	routes  map[route]*known
}

// A route is where events of a server come from.
type route struct {
	from   frame.Address
	server string // by the name that its own node has for it
}

// A known is a server of another node that was used.
type known struct {
	target    Target
	listeners []*listener
}

type listener struct{ hear func(session.Message) }

func (e *events) init() {
	e.came, e.routes = make(chan struct{}, 1), make(map[route]*known)
}

// put adds an event. It reports false if too many wait.
func (e *events) put(f *frame.Frame) bool {
	size := len(f.Payload) + 512
	if m := f.Header.Message; m != nil {
		size += len(m.Params)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, ok := e.routes[route{f.Header.From, f.Header.Server}]; !ok || len(e.waiting) >= maxEvents || e.bytes+size > maxEventBytes {
		return false
	}
	e.waiting = append(e.waiting, f)
	e.bytes += size
	e.total++
	signal.Leave(e.came)
	return true
}

// take removes and returns all events.
func (e *events) take() []*frame.Frame {
	e.mu.Lock()
	defer e.mu.Unlock()
	all := e.waiting
	e.waiting, e.bytes = nil, 0
	return all
}

// done notes that an event was handled.
func (e *events) done() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.handled++
	if e.moved != nil {
		close(e.moved)
		e.moved = nil
	}
}

// await waits until all events that have come are handled, for a while.
func (e *events) await() {
	e.mu.Lock()
	until := e.total
	if e.handled >= until {
		e.mu.Unlock()
		return
	}
	e.mu.Unlock()
	timer := time.NewTimer(eventsWait)
	defer timer.Stop()
	for {
		e.mu.Lock()
		if e.handled >= until {
			e.mu.Unlock()
			return
		}
		if e.moved == nil {
			e.moved = make(chan struct{})
		}
		moved := e.moved
		e.mu.Unlock()
		select {
		case <-moved:
		case <-timer.C:
			return
		}
	}
}

// use notes that a server is used, so that its events are passed on.
func (e *events) use(t Target) {
	e.mu.Lock()
	defer e.mu.Unlock()
	at := route{t.To, t.Server}
	if one := e.routes[at]; one != nil {
		one.target = t
		return
	}
	e.routes[at] = &known{target: t}
}

// name returns the name that a server has here.
func (e *events) name(from frame.Address, server string) (string, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	one := e.routes[route{from, server}]
	if one == nil {
		return "", false
	}
	return one.target.Name, true
}

// sweep forgets the servers that are gone.
func (e *events) sweep() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for at, one := range e.routes {
		if signal.IsClosed(one.target.Gone) {
			delete(e.routes, at)
		}
	}
}

// listen has hear called with the events of a server, until stop is called.
func (e *events) listen(t Target, hear func(session.Message)) (stop func()) {
	e.use(t)
	e.mu.Lock()
	defer e.mu.Unlock()
	one, l := e.routes[route{t.To, t.Server}], &listener{hear}
	one.listeners = append(one.listeners[:len(one.listeners):len(one.listeners)], l)
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		var rest []*listener
		for _, other := range one.listeners {
			if other != l {
				rest = append(rest, other)
			}
		}
		one.listeners = rest
	}
}

// hearing returns the name that a server has here, and who listens to it.
func (e *events) hearing(h *frame.Header) (name string, listeners []*listener, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	one := e.routes[route{h.From, h.Server}]
	if one == nil {
		return "", nil, false
	}
	return one.target.Name, one.listeners, true
}

// hear passes on the events that wait.
func (c *Caller) hear() {
	for _, f := range c.events.take() {
		c.hearOne(f)
		c.events.done()
	}
}

func (c *Caller) hearOne(f *frame.Frame) {
	if !c.verified(f) {
		return
	}
	h := &f.Header
	name, listeners, ok := c.events.hearing(h)
	m, valid := messageOf(f)
	if !ok || !valid || m.Method == progress { // which belongs to a call
		c.Counts.Dropped(count.Unwanted)
		return
	}
	var owner session.Client
	if h.Home != "" {
		home := c.homes.find(h.Home, h.From)
		if home == nil { // it has left
			return
		}
		owner = home.client
	}
	for _, l := range listeners {
		l.hear(m)
	}
	c.OnMessage(name, owner, m)
}

// messageOf returns the notification in a frame. Its params, if they are a body, are all in the
// frame.
func messageOf(f *frame.Frame) (m session.Message, ok bool) {
	h := &f.Header
	if h.Message == nil {
		return m, false
	}
	m = session.Message{Method: h.Message.Method, Params: h.Message.Params}
	if h.Body != nil {
		if int64(len(f.Payload)) != h.Body.Size || transfer.Sum(f.Payload) != h.Body.Sum {
			return m, false
		}
		m.Params = f.Payload
	}
	// Questions are withdrawn by frames. This may be about any other question that a client has.
	return m, m.Method != cancelled && isParams(m.Params)
}
