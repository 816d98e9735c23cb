package caller

import (
	"context"
	"encoding/json"
	"errors"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/cluster/internal/count"
	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
	"github.com/mcp-metarouter/metarouter/cluster/internal/link"
	"github.com/mcp-metarouter/metarouter/cluster/internal/transfer"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

const (
	// acceptTime is how long a node may be silent before it accepts a call, and acceptMiB how much
	// longer while a first MiB of params is under way.
	acceptTime = time.Second
	acceptMiB  = 2 * time.Second

	// pollEvery is after how long without frames of a call that was sent its node is asked for it,
	// and silenceTime after how long the call is given up although the node is alive.
	pollEvery   = 2 * time.Second
	silenceTime = 30 * time.Second

	// reconnectTime is how long an offer waits for a connection to NATS, and reconnectPause how long
	// before each further attempt. When a NATS server ends, there is one with another at once.
	reconnectTime  = 500 * time.Millisecond
	reconnectPause = 10 * time.Millisecond
)

const (
	toolsCall = "tools/call"
	progress  = "notifications/progress"
	cancelled = "notifications/cancelled"
)

// A call is a request to a server of another node. It belongs to the goroutine of its user.
type call struct {
	*exchange
	target  Target
	request session.Request
	tool    string
	sum     string // the hash of the params

	sent     bool      // the node may run it
	heard    time.Time // when the last frame of the node came
	polled   time.Time
	seq      uint64 // of the last notification
	fetching bool   // the body of the result is being received
	ended    bool
	result   json.RawMessage
	err      error
}

// Call implements [session.Session].
func (s *remote) Call(ctx context.Context, r session.Request) (json.RawMessage, error) {
	result, err := s.call(ctx, r)
	s.caller.Counts.To(s.target.Node, count.OutcomeOf(err))
	return result, err
}

func (s *remote) call(ctx context.Context, r session.Request) (json.RawMessage, error) {
	c := s.caller
	lost := c.Lost(s.target.To)
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case signal.IsClosed(s.target.Gone), signal.IsClosed(lost):
		return nil, notSent("node %q has left, or no longer shares the server; see: metarouter nodes", s.target.Node)
	}
	one := &call{exchange: c.newExchange(newID(), s.target.To, s.target.Name, r.From), target: s.target, request: r, sum: emptySum}
	c.events.use(s.target)
	c.level(s.target.To)
	c.open(one.exchange)
	defer one.stop()
	one.offer(ctx, lost)
	for !one.ended {
		one.wait(ctx, lost)
	}
	return one.result, one.err
}

// emptySum is the hash of the params of a request without params.
var emptySum = transfer.Sum(nil)

// offer offers the call to the node.
func (c *call) offer(ctx context.Context, lost <-chan struct{}) {
	r := &c.request
	o := &frame.CallOffer{Method: r.Method, Direct: r.Method != toolsCall || r.Repeatable, Meta: r.Meta}
	if r.Method == toolsCall {
		c.tool, _ = wire.String(wire.Member(r.Params, "name"))
		o.Tool = c.tool
	}
	if deadline, ok := ctx.Deadline(); ok {
		o.Timeout = max(1, time.Until(deadline).Milliseconds())
	}
	if r.From != nil {
		o.Client, o.Modern, o.Capabilities = r.From.ClientName(), r.From.Modern(), r.From.Capabilities()
	}
	if r.Origin != nil {
		o.Origin = *r.Origin
	}
	var params *transfer.Source
	if r.Params != nil {
		params = transfer.NewSource("params", r.Params)
		c.sum = params.Body().Sum
	}
	h := frame.Header{Kind: frame.Offer, Home: c.caller.homes.at(r.From, c.to), Server: c.target.Server, Offer: o, Ended: c.caller.endings.take(c.to)}
	c.sent = o.Direct
	began := time.Now()
	err := c.send(h, params)
	for errors.Is(err, link.ErrDisconnected) && time.Since(began) < reconnectTime && c.pause(ctx, lost) {
		err = c.send(h, params)
	}
	c.heard = time.Now()
	if err != nil {
		c.fail(notSent("offer the call to node %q: %w", c.target.Node, err))
	}
}

// pause waits for reconnectPause. It reports false if the call is not wanted any more.
func (c *call) pause(ctx context.Context, lost <-chan struct{}) bool {
	timer := time.NewTimer(reconnectPause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		c.fail(context.Cause(ctx))
	case <-lost:
	case <-c.caller.life.Done():
	}
	return false
}

// wait waits for the next event of the call, and acts on it.
func (c *call) wait(ctx context.Context, lost <-chan struct{}) {
	now := time.Now()
	wake := c.advance(now)
	if c.ended {
		return
	}
	if next := c.next(); wake.IsZero() || next.Before(wake) {
		wake = next
	}
	timer := time.NewTimer(wake.Sub(now))
	defer timer.Stop()
	select {
	case <-c.in.came:
		c.handleAll()
	case a := <-c.questions.answer:
		c.reply(a.question, a.result, a.err)
	case <-timer.C:
		c.late(time.Now())
	case <-ctx.Done():
		c.giveUp()
		c.fail(context.Cause(ctx))
	case <-lost:
		c.handleAll() // the result may have come just in time
		c.failAs("node %q is lost, or has left: no heartbeat came from it", c.target.Node)
	case <-c.caller.life.Done():
		c.giveUp()
		c.failAs("%w", context.Cause(c.caller.life))
	}
}

// next returns when the node was silent for too long.
func (c *call) next() time.Time {
	switch {
	case c.fetching: // until the sink gives up, or parts come
		return time.Now().Add(silenceTime)
	case !c.sent:
		size := min(len(c.request.Params), 1<<20)
		return c.heard.Add(acceptTime + acceptMiB*time.Duration(size)>>20)
	case c.polled.After(c.heard):
		return c.polled.Add(pollEvery)
	}
	return c.heard.Add(pollEvery)
}

// late acts on the silence of the node.
func (c *call) late(now time.Time) {
	switch {
	case now.Before(c.next()): // it was the time of a body
	case !c.sent:
		c.giveUp()
		c.fail(notSent("node %q did not accept the call in time; it may be overloaded, or not reachable from here", c.target.Node))
	case now.Sub(c.heard) >= silenceTime:
		c.giveUp()
		c.fail(unknown("node %q is alive, and says nothing of the call for %s; look with 'metarouter nodes' on that machine whether it trusts this one", c.target.Node, silenceTime))
	default:
		// While there is no connection, the next poll may be sent.
		_ = c.send(frame.Header{Kind: frame.Poll}, nil)
		c.polled = now
	}
}

// giveUp notifies the node that the client does not wait for the call any more.
func (c *call) giveUp() { _ = c.send(frame.Header{Kind: frame.Cancel}, nil) }

func (c *call) fail(err error) {
	if !c.ended {
		c.ended, c.err = true, err
	}
}

// failAs ends the call with an error that says whether it was sent.
func (c *call) failAs(format string, args ...any) {
	if c.sent {
		c.fail(unknown(format, args...))
	} else {
		c.fail(notSent(format, args...))
	}
}

func (c *call) handleAll() {
	for _, f := range c.in.take() {
		if c.ended {
			return
		}
		c.handle(f)
	}
}

func (c *call) handle(f *frame.Frame) {
	if f.Header.Kind == frame.Part {
		c.part(f)
		return
	}
	if !c.caller.verified(f) {
		return
	}
	c.heard = time.Now()
	h := &f.Header
	switch h.Kind {
	case frame.Accept:
		c.accepted(h.Nonce)
	case frame.Refuse:
		c.fail(faultError(c.target.Node, h.Error))
	case frame.State:
		c.state(h)
	case frame.Notify:
		c.notified(f)
	case frame.Result:
		c.answered(f)
	default:
		c.common(f)
	}
}

// accepted starts the call.
func (c *call) accepted(nonce string) {
	if c.sent {
		return
	}
	if err := c.send(frame.Header{Kind: frame.Start, Nonce: nonce}, nil); err != nil {
		c.fail(notSent("start the call on node %q: %w", c.target.Node, err))
		return
	}
	c.sent = true
}

// state acts on a State frame of the node.
func (c *call) state(h *frame.Header) {
	switch {
	case h.Running:
	case h.Error != nil:
		c.fail(faultError(c.target.Node, h.Error))
	case c.request.Method != toolsCall || c.request.Repeatable:
		// The offer was lost, most likely, and it may be repeated if not.
		c.fail(notSent("node %q does not know the call", c.target.Node))
	default:
		c.failAs("node %q no longer knows the call; it may have been restarted", c.target.Node)
	}
}

// notified passes on a notification that belongs to the call.
func (c *call) notified(f *frame.Frame) {
	if f.Header.Seq <= c.seq {
		c.caller.Counts.Dropped(count.Repeated)
		return
	}
	m, ok := messageOf(f)
	if !ok || c.from == nil {
		c.caller.Counts.Dropped(count.Unwanted)
		return
	}
	c.seq = f.Header.Seq
	if m.Method == progress { // the node may name another call of the client
		token := wire.Member(c.request.Meta, "progressToken")
		if token == nil || m.Params == nil {
			c.caller.Counts.Dropped(count.Unwanted)
			return
		}
		m.Params = wire.SetMember(m.Params, "progressToken", token)
	}
	c.from.Notify(c.server, m)
}

// answered takes the result. Its frame was verified.
func (c *call) answered(f *frame.Frame) {
	h := &f.Header
	if r := h.Result; r == nil || r.Server != c.target.Server || r.Method != c.request.Method || r.Tool != c.tool || r.Arguments != c.sum {
		c.giveUp()
		c.fail(unknown("node %q has signed a result of another request", c.target.Node))
		return
	}
	if h.Body == nil {
		c.finish(h, nil)
		return
	}
	if c.fetching {
		return // it was sent again
	}
	c.fetching = true
	header := *h
	c.receive(f, func(data []byte, err error) {
		c.fetching = false
		switch {
		case err != nil:
			c.giveUp()
			c.fail(unknown("receive the result from node %q: %w", c.target.Node, err))
		default:
			c.finish(&header, data)
		}
	})
}

// isResult reports whether a text can be the result of a method. The result of a tool is checked to
// be JSON where our members are added to it, so that a long result is not read twice.
func isResult(method string, text []byte) bool {
	if method == toolsCall {
		return wire.IsObject(text) && !wire.HasLineEnd(text) && utf8.Valid(text)
	}
	return isText(text)
}

// finish ends the call with the result, or the error, that the header describes. data is its body.
func (c *call) finish(h *frame.Header, data []byte) {
	c.caller.ended(c.to, c.caller.endings.add(c.to, c.id))
	if ran := c.request.Ran; ran != nil {
		*ran = session.Run{Nodes: []string{c.target.Node}, Verified: true, Degraded: h.Result.Degraded, Kept: h.Result.Kept}
	}
	c.caller.events.await()
	switch {
	case h.Error != nil && h.Body != nil:
		own, err := ownError(data)
		if err != nil {
			c.fail(unknown("node %q: %w", c.target.Node, err))
			return
		}
		c.fail(own)
	case h.Error != nil:
		c.fail(faultError(c.target.Node, h.Error))
	case !isResult(c.request.Method, data):
		c.caller.Log.Warn("a node has sent a result that is not JSON on one line", zap.String("node", c.target.Node), zap.String("server", c.server))
		c.fail(unknown("node %q has sent a result that is not JSON on one line", c.target.Node))
	default:
		c.ended, c.result = true, data
	}
}
