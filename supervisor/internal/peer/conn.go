package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// A Conn is JSON-RPC with a server over a link: requests and their answers, and
// notifications in both directions. The server's requests and notifications go to
// the Peer that the Conn is part of.
type Conn struct {
	Calls  Calls
	Budget Budget
	Spoke  atomic.Bool // a message has come from the server

	OpenEvent atomic.Bool // as in [Outgoing], for the one stream of all answers

	host   Host
	link   Link
	handle func(m wire.Message, origin int64) error // acts on a request or notification
	agreed agreement                                // set by the handshake, before the session is shared
	lastID atomic.Int64
	outbox outbox

	*signal.Life // of the session, which ends with the cause that calls under way and to come fail with
}

// An agreement is the result of the handshake.
type agreement struct {
	info     session.Info
	meta     json.RawMessage // for modern requests' _meta; nil in the legacy era
	bothEras bool            // the server speaks the legacy era as well
}

// begin sends a request. Unless it fails, Calls.remove must be called for it.
func (c *Conn) begin(ctx context.Context, r session.Request) (*pendingRequest, error) {
	one := &pendingRequest{id: c.lastID.Add(1), began: time.Now(), method: r.Method, from: r.From, answer: make(chan Reply, 1)}
	params := r.Params
	if r.Meta != nil || c.agreed.meta != nil {
		params, one.token = stamp(c.agreed.meta, c.host.Roots, r, one.id)
	}
	object, err := wire.ParseObject(params)
	if err == nil {
		_, err = wire.ParseObject(r.Meta) // whose members stamp has copied one by one
	}
	if err != nil {
		return nil, session.InvalidParams("params: " + err.Error())
	}
	if err := c.Cause(); err != nil {
		return nil, notSent(c, err)
	}
	if err := c.Calls.add(one); err != nil {
		return nil, notSent(c, err)
	}
	line := wire.AppendRequest(make([]byte, 0, len(params)+len(r.Method)+64), one.id, r.Method, object)
	one.sent = Outgoing{ID: one.id, Method: r.Method, Params: object.Bytes(), Meta: r.Meta, Line: line, Repeatable: r.Repeatable || r.Method != "tools/call"}
	if err := c.link.Send(ctx, &one.sent); err != nil {
		c.Calls.remove(one)
		return nil, notSent(c, err)
	}
	return one, nil
}

// notSent marks the failure of a message that did not leave.
func notSent(c *Conn, err error) error {
	if errors.Is(err, session.ErrClosed) {
		err = c.Cause()
	}
	return fmt.Errorf("%w: %w", session.ErrNotSent, err)
}

// await waits for the result of a call and ends the call. If ctx ends first, the
// server is notified that the request is cancelled.
func (c *Conn) await(ctx context.Context, one *pendingRequest) (json.RawMessage, error) {
	defer c.Calls.remove(one)
	select {
	case reply := <-one.answer:
		return reply.Result()
	case <-ctx.Done():
		open := one.sent.OpenEvent.Load() || c.OpenEvent.Load()
		cancelAtServer(c, one)
		if open {
			return nil, fmt.Errorf("%w: %w", session.ErrOpenEvent, context.Cause(ctx))
		}
		return nil, context.Cause(ctx)
	case <-c.Done():
		select {
		case reply := <-one.answer: // it came just in time
			return reply.Result()
		default:
		}
		if one.sent.Unsent.Load() {
			return nil, fmt.Errorf("%w: %w", session.ErrNotSent, c.Cause())
		}
		return nil, fmt.Errorf("%w: %w", session.ErrClosed, c.Cause())
	}
}

// cancelAtServer notifies the server that no caller waits for the answer any more.
func cancelAtServer(c *Conn, one *pendingRequest) {
	if one.sent.AbortCancels {
		one.sent.End()
		return
	}
	o, _ := notification(Cancelled, fmt.Appendf(nil, `{"requestId":%d,"reason":"cancelled by the client"}`, one.id))
	o.Abort = one.sent.Abort
	c.outbox.add(c, o)
}

// Request sends a request and waits for its result, as [session.Session] says of
// Call. A modern server's question in the result is not answered.
func (c *Conn) Request(ctx context.Context, r session.Request) (json.RawMessage, error) {
	one, err := c.begin(ctx, r)
	if err != nil {
		return nil, err
	}
	return c.await(ctx, one)
}

// Notify sends a notification. It does not wait for the server.
func (c *Conn) Notify(ctx context.Context, method string, params json.RawMessage) error {
	o, err := notification(method, params)
	if err != nil {
		return fmt.Errorf("%w: %w", session.ErrNotSent, err)
	}
	if err := c.link.Send(ctx, o); err != nil {
		return notSent(c, err)
	}
	return nil
}

// notification returns a notification. Its error is about parameters that are no [wire.Object].
func notification(method string, params json.RawMessage) (*Outgoing, error) {
	object, err := wire.ParseObject(params)
	if err != nil {
		return nil, fmt.Errorf("params: %w", err)
	}
	return &Outgoing{Method: method, Params: object.Bytes(), Line: wire.AppendNotification(nil, method, object)}, nil
}

// NotifyLater sends a notification and does not wait until it is written. Parameters that are no [wire.Object] are not sent.
func (c *Conn) NotifyLater(method string, params json.RawMessage) {
	if c.host.Roots != nil && method == "notifications/roots/list_changed" {
		return // those that the server gets stay the same
	}
	if o, err := notification(method, params); err == nil {
		c.outbox.add(c, o)
	}
}

// respond answers a request of the server.
func (c *Conn) respond(id, result json.RawMessage, err error) {
	line := wire.AppendResult(nil, id, result)
	if err != nil {
		var e *session.Error
		if !errors.As(err, &e) {
			e = &session.Error{Code: session.CodeInternal, Message: err.Error()}
		}
		line = wire.AppendError(nil, id, wire.Marshal(e))
	}
	c.outbox.add(c, &Outgoing{Line: line})
}

// Receive acts on one message of the server. origin is the id of the request that
// the message came with, 0 if that is not known. It does not block. An error means
// that the message is a stray.
func (c *Conn) Receive(m wire.Message, origin int64) error {
	c.Spoke.Store(true)
	if m.IsResponse() || !wire.IsObject(m.Params) || strings.HasSuffix(m.Method, "/list_changed") {
		m.Params = nil // some languages write [] or null for no parameters
	} else if _, err := wire.ParseObject(m.Params); err != nil && m.Fault == nil {
		m.Fault = fmt.Errorf("faulty in its parameters: %w", err)
	}
	switch {
	case m.IsResponse():
	case !c.Budget.admit(m.Method, len(m.Params)) && m.IsNotification():
		return nil
	case m.Fault != nil:
		c.Budget.spoil(m.Fault)
		if m.IsRequest() {
			c.respond(m.ID, nil, &session.Error{Code: session.CodeInvalidRequest, Message: "the request can't be passed on: it is " + m.Fault.Error()})
		}
		return nil
	default:
		return c.handle(m, origin)
	}
	id, err := OurID(m.ID)
	if err != nil {
		return err
	}
	if id > c.lastID.Load() {
		return errors.New("response to a request that was never made")
	}
	c.Settle(id, Reply{Message: m})
	return nil
}

// OnlyText reports the first line of a server that writes text, and no message.
func (c *Conn) OnlyText(first string) {
	if c.host.Text != nil {
		c.host.Text(strings.ToValidUTF8(first, ""))
	}
}

// OurID reads an id of one of our requests, which some servers send back as a
// string.
func OurID(id json.RawMessage) (int64, error) {
	n, err := strconv.ParseInt(strings.Trim(string(id), `"`), 10, 64)
	if err != nil {
		return 0, errors.New("no id of ours")
	}
	return n, nil
}

// Settle gives a request its reply. Later replies to the same request are dropped.
func (c *Conn) Settle(id int64, r Reply) {
	one := c.Calls.get(id)
	if one == nil {
		c.Budget.admit("", len(r.Message.Result))
		return
	}
	if r.Err == nil && (one.from != nil || one.method == "tools/call") {
		c.Calls.Served.Add(1)
	}
	if r.Message.Fault != nil {
		r = check(c, one.method, r)
	}
	select {
	case one.answer <- r:
	default:
		c.Budget.admit("", len(r.Message.Result))
	}
}

// Info implements [session.Session].
func (c *Conn) Info() session.Info { return c.agreed.info }
