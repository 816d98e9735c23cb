package callee

import (
	"errors"
	"fmt"
	"time"

	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
	"github.com/mcp-metarouter/metarouter/cluster/internal/transfer"
)

// Bounds of running calls and of kept results, in all and per node.
const (
	maxCalls   = 4096
	maxCallsOf = 1024

	// of the params of calls, in bytes
	maxParams   = 256 << 20
	maxParamsOf = 128 << 20

	// of results that are kept
	maxKept        = 16_384
	maxKeptBytes   = 256 << 20
	maxKeptBytesOf = 128 << 20

	// keepTime is how long a result is kept.
	keepTime = 30 * time.Second
)

// A usage counts the resources of the callee that a node uses.
type usage struct {
	calls         int
	params        int64 // bytes
	kept          int64 // bytes of results
	gateways      int
	subscriptions int
}

// Why offers are refused.
var (
	errIgnored    = errors.New("the offer is not answered")
	errNotShared  = errors.New("the node does not share this server")
	errRefusing   = errors.New("the node is leaving the cluster")
	errOld        = fmt.Errorf("the offer came more than %s after it was sent", startTime)
	errBusy       = errors.New("the node is busy: it has as many calls of other nodes as it takes")
	errReleased   = errors.New("the client of the call has left")
	errInvalid    = errors.New("the offer is invalid")
	errUnexpected = errors.New("the node was not offered this call, or has forgotten it")
)

// admit decides whether the call of an offer may be accepted. It returns errIgnored if the offer is
// forged or was seen before.
func (c *Callee) admit(one *call, f *frame.Frame, genuine bool) error {
	h, now := f.Header, c.wall() // a copy, which does not keep the payload
	shared, from, old := genuine && c.Shared(h.Server), c.newClient(&h), c.Age(&h) > startTime
	size := sizeOf(&h)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.verifying--
	if !genuine {
		delete(c.calls, one.id)
		return errIgnored
	}
	switch c.seen.add(h.From, h.Call, h.Time, now) {
	case isKnown:
		delete(c.calls, one.id)
		c.drop("replayed")
		return errIgnored
	case isFull:
		c.drop("busy")
		return errBusy
	}
	of := c.usageOf(h.From.Key)
	var why error
	switch {
	case h.Body != nil && (h.Body.Size < 0 || h.Body.Size > transfer.MaxBody):
		c.drop("malformed")
		why = errInvalid
	case !shared:
		c.drop("unshared")
		why = errNotShared
	case old: // this process was frozen, or the frame was held up
		c.drop("expired")
		why = errOld
	case c.leaving:
		why = errRefusing
	case c.total.calls >= maxCalls, of.calls >= maxCallsOf, c.total.params+size > maxParams, of.params+size > maxParamsOf:
		c.drop("busy")
		why = errBusy
	}
	if why != nil {
		c.tidy(h.From.Key)
		return why
	}
	g, err := c.clientOf(&h, from)
	if err != nil {
		c.tidy(h.From.Key)
		return err
	}
	g.used[h.Server] = time.Now()
	from.call = one
	one.offer, one.client = &h, from // no other goroutine knows of the call yet
	one.gateway, one.server, one.size, one.arguments, one.admitted = g, h.Server, size, transfer.Sum(nil), now
	if h.Body != nil {
		one.arguments = h.Body.Sum
	}
	for _, u := range []*usage{of, &c.total} {
		u.calls++
		u.params += size
	}
	return nil
}

// sizeOf returns how many bytes an offer has.
func sizeOf(h *frame.Header) int64 {
	o := h.Offer
	size := int64(1<<10 + len(o.Meta) + len(o.Capabilities) + len(o.Origin.Rules) + len(o.Client))
	if h.Body != nil {
		size += max(0, h.Body.Size)
	}
	return size
}

// usageOf returns the usage of the node with the key. c.mu must be held.
func (c *Callee) usageOf(key string) *usage {
	of := c.usage[key]
	if of == nil {
		of = &usage{}
		c.usage[key] = of
	}
	return of
}

// tidy deletes the usage of the node with the key if it is zero. c.mu must be held.
func (c *Callee) tidy(key string) {
	if of := c.usage[key]; of != nil && *of == (usage{}) {
		delete(c.usage, key)
	}
}

// ended notes that a call does not run any more. Its result may be kept for a while.
func (c *Callee) ended(one *call, keep bool) {
	one.parts.discard()
	key := one.id.gateway.Key
	c.mu.Lock()
	if one.size > 0 {
		for _, u := range []*usage{c.usageOf(key), &c.total} {
			u.calls--
			u.params -= one.size
		}
		one.size = 0
	}
	var forgotten []*call
	if keep {
		for _, u := range []*usage{c.usageOf(key), &c.total} {
			u.kept += one.weight
		}
		one.place = c.kept.PushBack(one)
		forgotten = c.makeRoom(key)
	} else if c.calls[one.id] == one {
		delete(c.calls, one.id)
	}
	c.tidy(key)
	c.changed.Notify()
	c.mu.Unlock()
	for _, other := range forgotten {
		other.discard()
	}
}

// makeRoom removes the oldest results while there are too many, first results of the node if it has
// too many itself. The last one stays. c.mu must be held.
func (c *Callee) makeRoom(key string) (removed []*call) {
	for e := c.kept.Front(); e != c.kept.Back(); {
		own := c.usageOf(key).kept > maxKeptBytesOf
		if !own && c.kept.Len() <= maxKept && c.total.kept <= maxKeptBytes {
			break
		}
		one, next := e.Value.(*call), e.Next()
		if !own || one.id.gateway.Key == key {
			removed = append(removed, one)
			c.unkeep(one)
		}
		e = next
	}
	return removed
}

// unkeep removes a result that is kept. c.mu must be held.
func (c *Callee) unkeep(one *call) {
	c.kept.Remove(one.place)
	one.place = nil
	for _, u := range []*usage{c.usageOf(one.id.gateway.Key), &c.total} {
		u.kept -= one.weight
	}
	if c.calls[one.id] == one {
		delete(c.calls, one.id)
	}
	c.tidy(one.id.gateway.Key)
}

// expireResults removes the results that have been kept for keepTime.
func (c *Callee) expireResults() {
	now := time.Now()
	c.mu.Lock()
	var over []*call
	for e := c.kept.Front(); e != nil && now.Sub(e.Value.(*call).since) >= keepTime; e = c.kept.Front() {
		over = append(over, e.Value.(*call))
		c.unkeep(e.Value.(*call))
	}
	if over != nil {
		c.changed.Notify()
	}
	c.mu.Unlock()
	for _, one := range over {
		one.discard()
	}
}

// forget forgets the call if it has ended: its gateway has the result.
func (c *call) forget() {
	c.callee.mu.Lock()
	kept := c.place != nil
	if kept {
		c.callee.unkeep(c)
		c.callee.changed.Notify()
	}
	c.callee.mu.Unlock()
	if kept {
		c.discard()
	}
}
