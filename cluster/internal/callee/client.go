package callee

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/session"
)

// A client is the client of a call, or of a subscription, at its gateway.
type client struct {
	call         *call // nil of a subscription
	home         *home // nil for a client without a session
	caller       session.Caller
	name         string
	modern       bool
	capabilities json.RawMessage
}

// newClient returns the client that an offer describes.
func (c *Callee) newClient(h *frame.Header) *client {
	o := h.Offer
	from := &client{name: o.Client, modern: o.Modern, capabilities: o.Capabilities}
	if from.capabilities == nil {
		from.capabilities = json.RawMessage("{}")
	}
	// The principal is one at the gateway. It is no principal of this router, even if the hashes
	// are equal.
	from.caller = session.Caller{Principal: h.From.Key + "/" + o.Origin.Principal, Name: clusternode.NameAt(o.Origin.Name, c.nameOf(h.From.Key)), OverHTTP: true}
	return from
}

// Home implements [session.Client].
func (c *client) Home() session.Client {
	if c.home == nil {
		return nil
	}
	return c.home
}

// ClientName implements [session.Client].
func (c *client) ClientName() string { return c.name }

// Modern implements [session.Client].
func (c *client) Modern() bool { return c.modern }

// Capabilities implements [session.Client].
func (c *client) Capabilities() json.RawMessage { return c.capabilities }

// Caller returns the caller; see [session.CallerOf]. It may not log in at servers and is not on
// this machine.
func (c *client) Caller() session.Caller { return c.caller }

// GaveUp returns an error if this process was frozen since the call was offered: its gateway has given
// it up then, or will; see [session.GaveUp].
func (c *client) GaveUp() error {
	if c.call == nil || !c.call.callee.pulse.stopped(c.call.admitted, c.call.callee.wall) {
		return nil
	}
	return errStopped
}

var errStopped = fmt.Errorf("%w: this node was frozen for more than %s before the call began", session.ErrNotSent, startTime)

// Notify implements [session.Client]. If too many notifications wait to be sent, it is lost.
func (c *client) Notify(server string, m session.Message) {
	if c.call != nil {
		c.call.notify(server, m)
	}
}

// Ask implements [session.Client].
func (c *client) Ask(ctx context.Context, server string, m session.Message) (json.RawMessage, error) {
	if c.call == nil {
		return nil, errNoQuestions
	}
	return c.call.ask(ctx, c.capabilities, server, m)
}

var errNoQuestions = errors.New("a client can be asked during a call only")

// maxNotifications bounds the notifications of a call that wait to be sent.
var maxNotifications = bounds{items: 8192, bytes: 8 << 20}

// notify sends a notification that belongs to the call.
func (c *call) notify(server string, m session.Message) {
	o, ok := c.callee.notification(frame.Notify, server, m)
	if !ok {
		return
	}
	c.mu.Lock()
	if c.state != running {
		c.mu.Unlock()
		return
	}
	o.header.Seq = c.seq + 1
	added, start := c.out.put(o, o.size(), maxNotifications)
	if added {
		c.seq++
	} else {
		c.callee.drop("notifications")
	}
	c.mu.Unlock()
	if start {
		c.callee.start(func() { c.out.drain(c.transmit) })
	}
}

// notification returns the frame for a notification, which must fit into one.
func (c *Callee) notification(kind frame.Kind, server string, m session.Message) (o *outgoing, ok bool) {
	o = &outgoing{header: frame.Header{Kind: kind, Server: server, Message: &frame.Notification{Method: m.Method}}}
	o.setParams(slices.Clone(m.Params), "params")
	if o.source != nil && len(m.Params) > c.Wire.MaxPayload()-4<<10 {
		c.drop("notifications")
		return nil, false
	}
	return o, true
}

// A home is the session of a client at its gateway.
type home struct {
	callee  *Callee
	gateway *gateway
	id      string
	from    *client // as the first call described it
	life    context.Context
	end     context.CancelCauseFunc
}

// Home implements [session.Client].
func (h *home) Home() session.Client { return h }

// ClientName implements [session.Client].
func (h *home) ClientName() string { return h.from.name }

// Modern implements [session.Client].
func (h *home) Modern() bool { return h.from.modern }

// Capabilities implements [session.Client].
func (h *home) Capabilities() json.RawMessage { return h.from.capabilities }

// Caller returns the caller; see [session.CallerOf].
func (h *home) Caller() session.Caller { return h.from.caller }

// Notify implements [session.Client].
func (h *home) Notify(server string, m session.Message) { h.gateway.queue(server, h.id, m, update{}) }

// Ask implements [session.Client]. A question outside of calls is an exchange of its own.
func (h *home) Ask(ctx context.Context, server string, m session.Message) (json.RawMessage, error) {
	c := h.callee
	one := c.newCall(callID{h.gateway.address, rand.Text()})
	one.state, one.ctx, one.home, one.gateway = asking, h.life, h.id, h.gateway
	c.mu.Lock()
	if c.closed || h.life.Err() != nil || h.gateway.asking >= maxAsking {
		c.mu.Unlock()
		c.drop("questions")
		return nil, errTooManyQuestions
	}
	h.gateway.asking++
	c.calls[one.id] = one
	c.mu.Unlock()
	defer func() {
		one.parts.discard()
		c.mu.Lock()
		defer c.mu.Unlock()
		h.gateway.asking--
		delete(c.calls, one.id)
	}()
	return one.ask(ctx, h.from.capabilities, server, m)
}
