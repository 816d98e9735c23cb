package callee

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
	"github.com/mcp-metarouter/metarouter/internal/session"
)

const (
	// maxGateways bounds the routers that call this node, maxGatewaysOf the routers of a node.
	maxGateways   = 4096
	maxGatewaysOf = 64

	// maxHomes bounds the clients of a gateway that have a session.
	maxHomes = 4096
)

// A gateway is a running router that calls this node.
type gateway struct {
	callee  *Callee
	address frame.Address
	over    chan struct{}    // closed when it is released
	out     queue[*outgoing] // events

	updates struct {
		mu     sync.Mutex
		queued map[update]bool // updates of resources that wait to be sent
	}

	// The fields below are guarded by Callee.mu.
	homes         map[string]*home
	used          map[string]time.Time // servers, by when it called them last
	subscriptions map[string]*subscription
	level         string // the least level of the log messages that it wants; "" without log messages
	asking        int    // questions outside of calls
}

// gatewayOf returns the gateway at an address, nil if there are too many. c.mu must be held.
func (c *Callee) gatewayOf(address frame.Address) *gateway {
	g := c.gateways[address]
	if g != nil {
		return g
	}
	of := c.usageOf(address.Key)
	if c.closed || len(c.gateways) >= maxGateways || of.gateways >= maxGatewaysOf {
		c.tidy(address.Key)
		return nil
	}
	of.gateways++
	g = &gateway{
		callee: c, address: address, over: make(chan struct{}),
		homes: make(map[string]*home), used: make(map[string]time.Time), subscriptions: make(map[string]*subscription),
	}
	g.updates.queued = make(map[update]bool)
	c.gateways[address] = g
	c.running.Go(func() {
		select {
		case <-c.Lost(address):
			c.release(address, errGatewayLost)
		case <-g.over:
		}
	})
	return g
}

// nameOf returns the name of a node, or its key while the name is not known, so that two nodes
// never have the same name.
func (c *Callee) nameOf(key string) string { return cmp.Or(c.Name(key), key) }

// clientOf returns the gateway and the client of an offer. Their home is made if need be. c.mu must
// be held.
func (c *Callee) clientOf(h *frame.Header, from *client) (*gateway, error) {
	g := c.gatewayOf(h.From)
	if g == nil {
		c.drop("busy")
		return nil, errBusy
	}
	if h.Home == "" {
		return g, nil
	}
	at := g.homes[h.Home]
	if at == nil {
		if released, _ := c.seen.get(h.From, "home\x00"+h.Home); released {
			return nil, errReleased
		}
		if len(g.homes) >= maxHomes {
			c.drop("busy")
			return nil, errBusy
		}
		at = &home{callee: c, gateway: g, id: h.Home, from: from}
		at.life, at.end = context.WithCancelCause(c.life)
		g.homes[h.Home] = at
	}
	from.home = at
	return g, nil
}

// release ends all calls and subscriptions of a gateway.
func (c *Callee) release(address frame.Address, cause error) {
	c.mu.Lock()
	g := c.gateways[address]
	if g == nil {
		c.mu.Unlock()
		return
	}
	delete(c.gateways, address)
	close(g.over)
	c.usageOf(address.Key).gateways--
	var calls []*call
	for id, one := range c.calls {
		if id.gateway == address && one.gateway == g {
			calls = append(calls, one)
		}
	}
	homes, subscriptions := slices.Collect(maps.Values(g.homes)), slices.Collect(maps.Values(g.subscriptions))
	wanted := c.leastLevel()
	c.tidy(address.Key)
	c.mu.Unlock()
	for _, one := range calls {
		one.cancelled(cause)
	}
	for _, s := range subscriptions {
		s.end(cause)
	}
	for _, at := range homes {
		at.end(cause)
		c.Host.Release(at)
	}
	c.levels.want(c, wanted)
	if cause == errGatewayLost {
		level := zap.InfoLevel
		if len(calls) == 0 {
			level = zap.DebugLevel // as after each command
		}
		c.Log.Log(level, "a router that called this one is gone", zap.String("node", c.nameOf(address.Key)), zap.Int("calls", len(calls)))
	}
}

// releaseHome ends the sessions and subscriptions of a client that has left its gateway.
func (c *Callee) releaseHome(f *frame.Frame) {
	h := &f.Header
	if h.Home == "" {
		return
	}
	c.seen.add(h.From, "home\x00"+h.Home, h.Time, c.wall())
	c.mu.Lock()
	var at *home
	var subscriptions []*subscription
	if g := c.gateways[h.From]; g != nil {
		at = g.homes[h.Home]
		delete(g.homes, h.Home)
		for _, s := range g.subscriptions {
			if at != nil && s.home == at {
				subscriptions = append(subscriptions, s)
			}
		}
	}
	c.mu.Unlock()
	for _, s := range subscriptions {
		s.end(errReleased)
	}
	if at != nil {
		at.end(errReleased)
		c.Host.Release(at)
	}
}

// tell passes on a notification of a client.
func (c *Callee) tell(f *frame.Frame) {
	h := &f.Header
	if h.Call == "" || h.Home == "" || h.Message == nil || !isParams(h.Message.Params) {
		c.drop("malformed")
		return
	}
	if c.seen.add(h.From, h.Call, h.Time, c.wall()) != isNew {
		c.drop("replayed")
		return
	}
	c.mu.Lock()
	var at *home
	if g := c.gateways[h.From]; g != nil {
		at = g.homes[h.Home]
	}
	c.mu.Unlock()
	if at != nil { // else no server has a session for it
		c.Host.Tell(at, h.Message.Method, h.Message.Params)
	}
}

// answerUnknown answers a frame about a call that this node does not have.
func (c *Callee) answerUnknown(f *frame.Frame) {
	h := &f.Header
	if h.Call == "" {
		return
	}
	c.mu.Lock()
	g := c.gateways[h.From]
	subscribed := g != nil && g.subscriptions[h.Call] != nil
	c.mu.Unlock()
	answer := &outgoing{header: frame.Header{Kind: frame.State, Running: subscribed}}
	if !subscribed {
		known, neverRan := c.seen.get(h.From, h.Call)
		switch {
		case neverRan:
			answer.header.Error = &frame.Fault{Reason: reasonOf(errUnexpected)}
		case !known && c.seen.add(h.From, h.Call, h.Time, c.wall()) == isFull:
			return // an offer that is late might still run
		}
	}
	c.transmit(h.From, h.Call, answer)
}

// severities are the levels of log messages, the least first.
var severities = []string{"debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"}

// setLevel notes which log messages a gateway wants.
func (c *Callee) setLevel(f *frame.Frame) {
	if f.Header.Message == nil || f.Header.Message.Method != "" && !slices.Contains(severities, f.Header.Message.Method) {
		c.drop("malformed")
		return
	}
	c.mu.Lock()
	if g := c.gatewayOf(f.Header.From); g != nil {
		g.level = f.Header.Message.Method
	}
	least := c.leastLevel()
	c.mu.Unlock()
	c.levels.want(c, least)
}

// leastLevel returns the least level that any gateway wants, "" if all want no log messages. c.mu
// must be held.
func (c *Callee) leastLevel() string {
	least := len(severities)
	for _, g := range c.gateways {
		if i := slices.Index(severities, g.level); i >= 0 {
			least = min(least, i)
		}
	}
	if least == len(severities) {
		return ""
	}
	return severities[least]
}

// levelTime bounds how long servers are asked for log messages of a level.
const levelTime = 10 * time.Second

// A leveling has the host set the level of log messages, one after the other. The zero value has no
// level.
type leveling struct {
	mu     sync.Mutex // guards the fields below
	wanted string
	set    string
	busy   bool
}

// want has the host set a level, unless it is set already. "" changes nothing.
func (l *leveling) want(c *Callee, level string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if level != "" {
		l.wanted = level
	}
	if !l.busy && l.wanted != l.set {
		l.busy = c.start(func() { l.apply(c) })
	}
}

// apply sets the level that is wanted last.
func (l *leveling) apply(c *Callee) {
	for {
		l.mu.Lock()
		if l.set == l.wanted || c.life.Err() != nil {
			l.busy = false
			l.mu.Unlock()
			return
		}
		l.set = l.wanted
		level := l.set
		l.mu.Unlock()
		ctx, cancel := context.WithTimeout(c.life, levelTime)
		c.Host.SetLevel(ctx, level)
		cancel()
	}
}

var _ session.Client = (*home)(nil)

// errUnshared is why a subscription ends.
var errUnshared = errors.New("the node no longer shares the server")
