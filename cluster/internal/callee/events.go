package callee

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

const (
	// maxSubscriptions bounds the subscriptions of all nodes, maxSubscriptionsOf the subscriptions
	// of a node.
	maxSubscriptions   = 20_000
	maxSubscriptionsOf = 2_000

	// maxURI bounds the URI of a subscription, in bytes.
	maxURI = 16 << 10

	// subscribeTime bounds how long a subscription may take to begin.
	subscribeTime = time.Minute

	// usedTime is how long after its last call of a server a gateway gets log messages of it.
	usedTime = 10 * time.Minute
)

// maxEvents bounds the events of a gateway that wait to be sent.
var maxEvents = bounds{items: 4096, bytes: 4 << 20}

// A resource is one of a server.
type resource struct{ server, uri string }

// An update says to a gateway that a resource has changed. home is "" if it is for all its clients.
type update struct {
	resource
	home string
}

// A subscription is a subscription of a gateway's client to a resource.
type subscription struct {
	gateway *gateway
	id      string
	at      resource
	home    *home // nil for a client without a session
	end     context.CancelCauseFunc
	active  bool // guarded by Callee.mu
}

func (c *Callee) subscribe(f *frame.Frame) {
	h := f.Header
	if h.Call == "" || h.Offer == nil || h.URI == "" || len(h.URI) > maxURI || !isDescribed(h.Offer) {
		c.drop("malformed")
		return
	}
	if c.repeated(&h) {
		return
	}
	shared, from := c.Shared(h.Server), c.newClient(&h)
	s, ctx, err := c.addSubscription(&h, from, shared)
	if err == nil && !c.start(func() {
		c.keepSubscribed(ctx, s, clusternode.Incoming{
			ID: h.Call, Gateway: c.nameOf(h.From.Key), Key: h.From.Key, Server: h.Server, URI: h.URI,
			Request: session.Request{Method: "resources/subscribe", From: from, Origin: &h.Offer.Origin},
		})
	}) {
		c.removeSubscription(s)
		err = errRefusing
	}
	if err != nil {
		c.transmit(h.From, h.Call, &outgoing{header: frame.Header{Kind: frame.State, Error: &frame.Fault{Reason: reasonOf(err)}}})
	}
}

// repeated answers a frame that asks for a subscription that was asked for before.
func (c *Callee) repeated(h *frame.Header) bool {
	c.mu.Lock()
	g := c.gateways[h.From]
	var s *subscription
	if g != nil {
		s = g.subscriptions[h.Call]
	}
	active := s != nil && s.active
	c.mu.Unlock()
	if active {
		c.transmit(h.From, h.Call, &outgoing{header: frame.Header{Kind: frame.State, Running: true}})
	}
	return s != nil
}

// addSubscription adds a subscription, unless it is refused.
func (c *Callee) addSubscription(h *frame.Header, from *client, shared bool) (*subscription, context.Context, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.usageOf(h.From.Key)
	defer c.tidy(h.From.Key)
	switch {
	case !shared:
		c.drop("unshared")
		return nil, nil, errNotShared
	case c.leaving:
		return nil, nil, errRefusing
	case c.total.subscriptions >= maxSubscriptions, of.subscriptions >= maxSubscriptionsOf:
		c.drop("busy")
		return nil, nil, errBusy
	}
	switch c.seen.add(h.From, h.Call, h.Time, c.wall()) {
	case isKnown:
		c.drop("replayed")
		return nil, nil, errUnexpected
	case isFull:
		c.drop("busy")
		return nil, nil, errBusy
	}
	g, err := c.clientOf(h, from)
	if err != nil {
		return nil, nil, err
	}
	s := &subscription{gateway: g, id: h.Call, at: resource{h.Server, h.URI}, home: from.home}
	ctx, end := context.WithCancelCause(c.life)
	s.end = end
	g.subscriptions[s.id] = s
	if c.watched[s.at] == nil {
		c.watched[s.at] = make(map[*subscription]bool)
	}
	c.watched[s.at][s] = true
	of.subscriptions++
	c.total.subscriptions++
	return s, ctx, nil
}

// keepSubscribed subscribes, and says when the subscription has ended.
func (c *Callee) keepSubscribed(ctx context.Context, s *subscription, in clusternode.Incoming) {
	defer s.end(nil)
	defer c.removeSubscription(s)
	beginning, stop := context.WithTimeout(ctx, subscribeTime)
	defer stop()
	state := func(running bool, err error) {
		o := &outgoing{header: frame.Header{Kind: frame.State, Running: running}}
		if err != nil {
			o.setError(faultOf(err))
		}
		c.transmit(s.gateway.address, s.id, o)
	}
	done, cancel, err := c.Host.Subscribe(beginning, in)
	if err != nil {
		state(false, err)
		return
	}
	c.mu.Lock()
	s.active = true
	c.mu.Unlock()
	state(true, nil)
	select {
	case <-done:
	case <-ctx.Done():
		cancel()
	}
	state(false, nil)
}

func (c *Callee) removeSubscription(s *subscription) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(s.gateway.subscriptions, s.id)
	delete(c.watched[s.at], s)
	if len(c.watched[s.at]) == 0 {
		delete(c.watched, s.at)
	}
	key := s.gateway.address.Key
	c.usageOf(key).subscriptions--
	c.total.subscriptions--
	c.tidy(key)
}

func (c *Callee) unsubscribe(from frame.Address, id string) {
	c.mu.Lock()
	var s *subscription
	if g := c.gateways[from]; g != nil {
		s = g.subscriptions[id]
	}
	c.mu.Unlock()
	if s != nil {
		s.end(errReleased)
	}
}

// endUnshared ends the subscriptions to resources of servers that are no longer shared.
func (c *Callee) endUnshared() {
	c.mu.Lock()
	servers := make(map[string][]*subscription)
	for at, all := range c.watched {
		for s := range all {
			servers[at.server] = append(servers[at.server], s)
		}
	}
	c.mu.Unlock()
	for server, all := range servers {
		if !c.Shared(server) {
			for _, s := range all {
				s.end(errUnshared)
			}
		}
	}
}

// hear passes on a message of a server that belongs to no request. It runs on the goroutine that
// reads from the server.
func (c *Callee) hear(server string, owner session.Client, m session.Message) {
	at, ours := owner.(*home)
	switch {
	case owner != nil && (!ours || at.callee != c):
		return // it is for a client of this router
	case !c.Shared(server):
		return
	case m.Method == "notifications/resources/updated":
		c.updated(server, at, m)
	case at != nil:
		at.gateway.queue(server, at.id, m, update{})
	case strings.HasSuffix(m.Method, "/list_changed"): // other nodes hear of it by announcements
	default:
		c.toSoleUser(server, m)
	}
}

// updated passes on that a resource has changed, to those that have subscribed to it. owner is nil
// if all may know.
func (c *Callee) updated(server string, owner *home, m session.Message) {
	uri, _ := wire.String(wire.Member(m.Params, "uri"))
	at := resource{server, uri}
	id := ""
	if owner != nil {
		id = owner.id
	}
	var to []*gateway
	c.mu.Lock()
	for s := range c.watched[at] {
		if (owner == nil || s.home == owner) && !slices.Contains(to, s.gateway) {
			to = append(to, s.gateway)
		}
	}
	c.mu.Unlock()
	for _, g := range to {
		u := update{at, id}
		g.updates.mu.Lock()
		queued := g.updates.queued[u]
		g.updates.queued[u] = true
		g.updates.mu.Unlock()
		if !queued && !g.queue(server, id, m, u) {
			g.sentUpdate(u)
		}
	}
}

// sentUpdate notes that the next update of the resource is a new one.
func (g *gateway) sentUpdate(u update) {
	g.updates.mu.Lock()
	defer g.updates.mu.Unlock()
	delete(g.updates.queued, u)
}

// toSoleUser passes on a message of a server that several clients may use. The message may be about
// the actions of one client: it goes only to a node that is the only recent caller of the server.
// Log messages go to the routers of that node that want them.
func (c *Callee) toSoleUser(server string, m session.Message) {
	severity := len(severities)
	if m.Method == "notifications/message" {
		level, _ := wire.String(wire.Member(m.Params, "level"))
		severity = slices.Index(severities, level)
	}
	now := time.Now()
	key := ""
	var to []*gateway
	c.mu.Lock()
	for _, g := range c.gateways {
		last, used := g.used[server]
		if !used || now.Sub(last) >= usedTime {
			continue
		}
		if key != "" && key != g.address.Key {
			to = nil
			break
		}
		key = g.address.Key
		wanted := slices.Index(severities, g.level)
		if severity == len(severities) || wanted >= 0 && severity >= wanted {
			to = append(to, g)
		}
	}
	c.mu.Unlock()
	for _, g := range to {
		g.queue(server, "", m, update{})
	}
}

// queue has a message sent that belongs to no call. home is "" if it is for all clients of the
// gateway. It reports false if the message is lost, because too many wait.
func (g *gateway) queue(server, home string, m session.Message, of update) bool {
	c := g.callee
	o, ok := c.notification(frame.Event, server, m)
	if !ok {
		return false
	}
	o.header.Home, o.update = home, of
	added, start := g.out.put(o, o.size(), maxEvents)
	if !added {
		c.drop("events")
	}
	if start {
		c.start(func() { g.out.drain(g.transmit) })
	}
	return added
}

func (g *gateway) transmit(o *outgoing) {
	if o.update != (update{}) { // a later change is another one
		g.sentUpdate(o.update)
	}
	g.callee.transmit(g.address, "", o)
}
