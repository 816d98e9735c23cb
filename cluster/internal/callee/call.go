package callee

import (
	"container/list"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/cluster/internal/count"
	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
	"github.com/mcp-metarouter/metarouter/cluster/internal/transfer"
	"github.com/mcp-metarouter/metarouter/internal/clusternode"
	"github.com/mcp-metarouter/metarouter/internal/session"
)

// startTime is how long after an offer its start must come, by the monotonic clock and by the wall
// clock.
const startTime = 2 * time.Second

// maxWaiting bounds the frames of a call that wait to be handled.
var maxWaiting = bounds{items: 128, bytes: 4 << 20}

// A callID identifies a call: each gateway gives its own IDs.
type callID struct {
	gateway frame.Address
	call    string
}

// A state is how far a call is.
type state int

const (
	offered  state = iota // its params are not complete
	accepted              // it waits for its start
	running
	asking // it is no call, but a question outside of calls
	ended  // its result is kept
	gone   // it is forgotten
)

// A call is a call of a gateway, from its offer until its result is no longer needed.
type call struct {
	callee *Callee
	id     callID
	in     queue[*frame.Frame] // frames that came
	out    queue[*outgoing]    // frames to send
	parts  *parts
	asked  questions

	// The fields below are set when the call is admitted, with Callee.mu held, and do not change.
	gateway   *gateway // nil before
	home      string   // of a question outside of calls
	server    string
	arguments string        // the hash of the params
	admitted  time.Time     // the time of the wall clock
	size      int64         // of the params and the rest of the offer, in bytes; guarded by Callee.mu
	place     *list.Element // among the results that are kept; nil if it is not kept; guarded by Callee.mu

	// The fields below are set before the result is kept, and do not change.
	since  time.Time // when the result was there
	weight int64     // of the result, in bytes
	kept   bool      // the client has a session of its own with the server

	mu      sync.Mutex // guards the fields below
	state   state
	offer   *frame.Header // nil once the call has ended
	params  json.RawMessage
	client  *client
	ready   time.Time // when the call began to wait for its start
	shown   time.Time // the time of the wall clock then
	nonce   string
	expiry  *time.Timer
	seq     uint64
	ctx     context.Context // of the call while it runs; nil before
	cancel  context.CancelCauseFunc
	sources map[string]*transfer.Source
	result  *outgoing
}

func (c *Callee) newCall(id callID) *call {
	return &call{callee: c, id: id, parts: newParts(c), sources: make(map[string]*transfer.Source)}
}

var (
	errCancelled   = errors.New("the gateway has cancelled the call")
	errGatewayLost = errors.New("the gateway of the call is gone")
	errDeadline    = errors.New("the deadline of the call has passed")
)

// offered takes an offer with a signature that is not checked yet.
func (c *Callee) offered(f *frame.Frame) {
	h := &f.Header
	if !isOffer(h) {
		c.drop("malformed")
		return
	}
	id := callID{h.From, h.Call}
	if known, _ := c.seen.get(h.From, h.Call); known {
		c.drop("replayed")
		return
	}
	c.mu.Lock()
	switch {
	case c.calls[id] != nil:
		c.mu.Unlock()
		c.drop("replayed")
		return
	case c.verifying >= maxVerifying:
		c.mu.Unlock()
		c.drop("flooded")
		return
	}
	one := c.newCall(id)
	c.calls[id] = one
	c.verifying++
	c.mu.Unlock()
	one.receive(f)
}

func (c *call) receive(f *frame.Frame) {
	added, start := c.in.put(f, len(f.Payload), maxWaiting)
	if !added {
		c.callee.drop("flooded")
	}
	if start {
		c.callee.start(func() { c.in.drain(c.handle) })
	}
}

func (c *call) handle(f *frame.Frame) {
	ok := c.callee.verified(f)
	if f.Header.Kind == frame.Offer {
		c.take(f, ok)
		return
	}
	if !ok || c.gateway == nil { // its offer was refused
		return
	}
	switch f.Header.Kind {
	case frame.Start:
		c.started(f)
	case frame.Cancel:
		c.cancelled(errCancelled)
	case frame.Answer:
		c.answered(f)
	case frame.Poll:
		c.polled(f)
	case frame.Pull:
		c.pulled(f)
	case frame.Done:
		c.forget()
	}
}

// take takes the offer once its signature was checked.
func (c *call) take(f *frame.Frame, genuine bool) {
	switch reason := c.callee.admit(c, f, genuine); reason {
	case nil:
	case errIgnored:
		c.parts.discard()
		return
	default:
		c.refuse(reason)
		return
	}
	body := f.Header.Body
	if body == nil {
		c.accept(nil)
		return
	}
	if body.Size == int64(len(f.Payload)) {
		c.collectParams(c.callee.life, f) // it does not wait
		return
	}
	if !c.callee.start(func() { c.awaitParams(f) }) {
		c.refuse(errLeaving)
	}
}

// collectParams collects the params, and accepts the call.
func (c *call) collectParams(ctx context.Context, f *frame.Frame) {
	params, err := c.collect(ctx, f)
	switch {
	case err != nil:
		c.refuse(fmt.Errorf("its parameters did not come: %w", err))
		return
	case !isParamsOf(f.Header.Offer, params):
		c.callee.drop("malformed")
		c.refuse(errInvalid)
		return
	}
	c.accept(params)
}

// accept lets the gateway start the call, or starts it at once if it may be repeated.
func (c *call) accept(params json.RawMessage) {
	c.mu.Lock()
	if c.state != offered {
		c.mu.Unlock()
		return
	}
	c.params, c.cancel = params, nil
	if c.offer.Offer.Direct {
		c.run()
		c.mu.Unlock()
		return
	}
	c.state, c.nonce = accepted, rand.Text()
	c.ready, c.shown = time.Now(), c.callee.wall()
	c.expiry = time.AfterFunc(startTime, func() { c.callee.start(c.expired) })
	nonce := c.nonce
	c.mu.Unlock()
	c.send(&outgoing{header: frame.Header{Kind: frame.Accept, Nonce: nonce}})
}

// started runs the call if the frame starts it, once.
func (c *call) started(f *frame.Frame) {
	if !c.callee.Shared(c.server) {
		c.callee.drop("unshared")
		c.refuse(errNotShared)
		return
	}
	c.mu.Lock()
	switch {
	case c.state == gone:
		c.mu.Unlock()
		c.callee.answerUnknown(f)
		return
	case c.state != accepted:
		c.mu.Unlock()
		c.callee.drop("replayed")
		return
	case subtle.ConstantTimeCompare([]byte(f.Header.Nonce), []byte(c.nonce)) != 1:
		c.mu.Unlock()
		c.callee.drop("nonce")
		return
	case time.Since(c.ready) > startTime, c.callee.Age(&f.Header) > startTime, c.callee.wall().Sub(c.shown).Abs() > startTime:
		c.mu.Unlock()
		c.expired()
		return
	}
	c.expiry.Stop()
	c.run()
	c.mu.Unlock()
}

// expired removes an offer without a start in time.
func (c *call) expired() {
	c.mu.Lock()
	waiting := c.state == accepted
	c.mu.Unlock()
	if waiting {
		c.callee.drop("expired")
		c.refuse(errExpired)
	}
}

var errExpired = fmt.Errorf("its start came later than %s after the offer", startTime)

// run runs the call. c.mu must be held.
func (c *call) run() {
	ctx, cancel := context.WithCancelCause(c.callee.life)
	c.state, c.ctx, c.cancel = running, ctx, cancel
	offer, from := c.offer.Offer, c.client
	in := clusternode.Incoming{
		ID: c.id.call, Gateway: c.callee.nameOf(c.id.gateway.Key), Key: c.id.gateway.Key, Server: c.server, Tool: offer.Tool,
		Request: session.Request{Method: offer.Method, Params: c.params, Meta: offer.Meta, From: from, Origin: &offer.Origin},
	}
	if !c.callee.start(func() {
		defer cancel(nil)
		result, degraded, err := c.execute(ctx, in, time.Duration(min(offer.Timeout, maxTimeout.Milliseconds()))*time.Millisecond)
		c.finish(result, degraded, err)
	}) {
		cancel(errClosed)
	}
}

// execute has the host carry the call out. A timeout of 0 is no limit.
func (c *call) execute(ctx context.Context, in clusternode.Incoming, timeout time.Duration) (result json.RawMessage, degraded bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			c.callee.Log.Error("a call of another node has panicked", zap.String("server", in.Server), zap.Any("panic", p), zap.Stack("stack"))
			result, err = nil, errors.New("internal error")
		}
	}()
	if timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, timeout, errDeadline)
		defer stop()
	}
	result, degraded, err = c.callee.Host.Execute(ctx, in)
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = context.Cause(ctx)
	}
	if home := in.Request.From.Home(); home != nil {
		c.kept = c.callee.Host.Keeps(in.Server, home)
	}
	return result, degraded, err
}

// maxTimeout bounds the time limit of a call.
const maxTimeout = 24 * time.Hour

// finish sends the result and keeps it.
func (c *call) finish(result json.RawMessage, degraded bool, err error) {
	out := &outgoing{header: frame.Header{Kind: frame.Result}}
	switch {
	case err == nil && len(result) > transfer.MaxBody:
		out.header.Error = &frame.Fault{Sent: true, Reason: fmt.Sprintf("the result has %d bytes, at most %d go from one node to another", len(result), transfer.MaxBody)}
	case err == nil:
		out.source = transfer.NewSource("result", result)
	default:
		out.setError(faultOf(err))
	}
	c.mu.Lock()
	offer := c.offer.Offer
	out.header.Result = &frame.CallResult{Server: c.server, Method: offer.Method, Tool: offer.Tool, Arguments: c.arguments, Degraded: degraded, Kept: c.kept}
	c.offer, c.params, c.client = nil, nil, nil
	if c.state != running { // its gateway has cancelled it
		c.mu.Unlock()
		c.count(count.Cancelled)
		c.callee.ended(c, false)
		return
	}
	c.state, c.result = ended, out
	c.since, c.weight = time.Now(), int64(4<<10+len(result))
	c.addSource(out.source)
	c.mu.Unlock()
	c.count(count.OutcomeOf(err))
	c.callee.ended(c, true)
	c.send(out)
}

func (c *call) count(o count.Outcome) {
	c.callee.Counts.From(c.callee.nameOf(c.id.gateway.Key), o)
}

// cancelled ends a call that its gateway does not wait for.
func (c *call) cancelled(cause error) {
	c.mu.Lock()
	was, cancel := c.state, c.cancel
	if was != ended {
		c.state = gone
	}
	if c.expiry != nil {
		c.expiry.Stop()
	}
	c.mu.Unlock()
	if cancel != nil {
		cancel(cause)
	}
	switch was {
	case offered, accepted:
		c.callee.seen.neverRan(c.id.gateway, c.id.call)
		c.callee.ended(c, false)
	case ended:
		c.forget()
	}
}

// refuse says that the call will never run.
func (c *call) refuse(reason error) {
	c.mu.Lock()
	if c.state != offered && c.state != accepted {
		c.mu.Unlock()
		return
	}
	c.state = gone
	if c.expiry != nil {
		c.expiry.Stop()
	}
	c.mu.Unlock()
	c.callee.seen.neverRan(c.id.gateway, c.id.call)
	c.count(count.NotSent)
	c.callee.ended(c, false)
	c.send(&outgoing{header: frame.Header{Kind: frame.Refuse, Error: &frame.Fault{Reason: reasonOf(reason)}}})
}

// polled answers a poll with the state of the call.
func (c *call) polled(f *frame.Frame) {
	c.mu.Lock()
	state, result := c.state, c.result
	c.mu.Unlock()
	switch state {
	case ended:
		c.send(result)
	case gone, asking:
		c.callee.answerUnknown(f)
	default:
		c.send(&outgoing{header: frame.Header{Kind: frame.State, Running: true}})
	}
}
