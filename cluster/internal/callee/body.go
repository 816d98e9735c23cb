package callee

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/cluster/internal/frame"
	"github.com/mcp-metarouter/metarouter/cluster/internal/link"
	"github.com/mcp-metarouter/metarouter/cluster/internal/transfer"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// inline is up to which size, in bytes, a text goes in the header of a frame. JSON in JSON may
// become six times as long, and a header may have 128 KiB.
const inline = 16 << 10

// An outgoing is a frame to send. It does not change once it is queued.
type outgoing struct {
	header frame.Header
	source *transfer.Source // of its body; nil without one
	update update           // that it is, of an event
}

// size returns about how many bytes the frame keeps.
func (o *outgoing) size() int {
	n := 1 << 10
	if m := o.header.Message; m != nil {
		n += len(m.Params)
	}
	if o.source != nil {
		n += int(o.source.Body().Size)
	}
	return n
}

// setParams sets the params of the message: in the header if they are short.
func (o *outgoing) setParams(params json.RawMessage, body string) {
	if len(params) <= inline {
		o.header.Message.Params = params
		return
	}
	o.source = transfer.NewSource(body, params)
}

// setError sets the error: an error of a server may be long.
func (o *outgoing) setError(f *frame.Fault) {
	if f.Own == nil || len(f.Own.Message)+len(f.Own.Data) <= inline {
		o.header.Error = f
		return
	}
	whole := *f
	own := *f.Own
	own.Message, own.Data = "", nil
	whole.Own = &own
	o.header.Error, o.source = &whole, transfer.NewSource("error", wire.Marshal(f.Own))
}

func (c *Callee) transmit(to frame.Address, call string, o *outgoing) {
	h := o.header
	h.Call = call
	var err error
	if o.source != nil {
		err = o.source.Send(c.Wire, to, h)
	} else {
		err = c.Wire.Send(to, h, nil)
	}
	if err != nil && !errors.Is(err, link.ErrDisconnected) {
		c.drop("unsendable")
		c.Log.Warn("a frame can't be sent", zap.String("kind", string(h.Kind)), zap.String("server", h.Server), zap.Error(err))
	}
}

// send sends a frame of the call, after those that are queued.
func (c *call) send(o *outgoing) {
	if c.out.must(o, o.size()) {
		c.out.drain(c.transmit)
	}
}

func (c *call) transmit(o *outgoing) { c.callee.transmit(c.id.gateway, c.id.call, o) }

// addSource lets the gateway pull a body. c.mu must be held. s may be nil.
func (c *call) addSource(s *transfer.Source) {
	if s != nil {
		c.sources[s.Body().ID] = s
	}
}

// removeSource ends the access to a body. s may be nil.
func (c *call) removeSource(s *transfer.Source) {
	if s != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.sources, s.Body().ID)
	}
}

// pulled sends the bytes that a frame asks for.
func (c *call) pulled(f *frame.Frame) {
	pull := f.Header.Part
	if pull == nil {
		return
	}
	c.mu.Lock()
	source := c.sources[pull.Body]
	c.mu.Unlock()
	if source != nil {
		source.Answer(c.callee.Wire, c.id.gateway, c.id.call, *pull)
	}
}

// discard releases the resources of an ended call.
func (c *call) discard() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state, c.result = gone, nil
	clear(c.sources)
}

// maxParts and maxPartBytes bound the parts of a call that wait to be put together.
const (
	maxParts     = 256
	maxPartBytes = 2 << 20
)

// parts are parts of bodies that came for a call, and wait to be put together.
type parts struct {
	callee *Callee
	turn   chan struct{} // holds an item while a body is put together: one at a time
	came   chan struct{} // holds an item when there are parts

	mu     sync.Mutex // guards the fields below
	frames []*frame.Frame
	bytes  int
	closed bool
}

func newParts(c *Callee) *parts {
	return &parts{callee: c, turn: make(chan struct{}, 1), came: make(chan struct{}, 1)}
}

// put adds a part, or drops it if too many wait: the missing bytes will be pulled.
func (p *parts) put(f *frame.Frame) {
	n := len(f.Payload)
	if f.Header.Part == nil || n == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || len(p.frames) >= maxParts || p.bytes+n > maxPartBytes || p.callee.early.Add(int64(n)) > maxEarly {
		if !p.closed && len(p.frames) < maxParts && p.bytes+n <= maxPartBytes {
			p.callee.early.Add(int64(-n))
		}
		return
	}
	p.frames = append(p.frames, f)
	p.bytes += n
	signal.Leave(p.came)
}

// take removes and returns all parts.
func (p *parts) take() []*frame.Frame {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := p.frames
	p.callee.early.Add(int64(-p.bytes))
	p.frames, p.bytes = nil, 0
	return all
}

// discard drops all parts, also those that will come.
func (p *parts) discard() {
	p.take()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
}

// awaitParams collects params that come in parts, until the call is cancelled.
func (c *call) awaitParams(f *frame.Frame) {
	ctx, cancel := context.WithCancelCause(c.callee.life)
	defer cancel(nil)
	c.mu.Lock()
	c.cancel = cancel
	c.mu.Unlock()
	c.collectParams(ctx, f)
}

// collect returns the body that a frame announces.
func (c *call) collect(ctx context.Context, f *frame.Frame) ([]byte, error) {
	sink, err := transfer.NewSink(*f.Header.Body, f.Payload, c.callee.Budget, time.Now())
	if err != nil {
		return nil, err
	}
	defer sink.Close()
	if data, ok, err := sink.Bytes(); ok || err != nil {
		return data, err
	}
	select {
	case c.parts.turn <- struct{}{}:
		defer func() { <-c.parts.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	for {
		pull, wake, err := sink.Next(time.Now())
		if err != nil {
			return nil, err
		}
		if pull.Length > 0 {
			c.callee.transmit(c.id.gateway, c.id.call, &outgoing{header: frame.Header{Kind: frame.Pull, Part: &pull}})
		}
		if data, ok, err := sink.Bytes(); ok || err != nil {
			return data, err
		}
		timer := time.NewTimer(time.Until(wake))
		select {
		case <-c.parts.came:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		for _, part := range c.parts.take() {
			sink.Add(*part.Header.Part, part.Payload, time.Now())
		}
	}
}
