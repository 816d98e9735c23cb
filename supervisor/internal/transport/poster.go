package transport

import (
	"context"
	"errors"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/peer"
)

// A poster is the part of a link that posts each message.
type poster struct {
	conn  *peer.Conn
	site  *Site
	log   *zap.Logger
	later chan struct{}   // holds an item for each message under way that has no answer
	ctx   context.Context // of all requests under way
	abort context.CancelFunc
}

// initialized posts the end of the handshake, which nothing may overtake.
func (p *poster) initialized(ctx context.Context, post func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(p.ctx, cancel)()
	err := post(ctx)
	if _, no := errors.AsType[*StatusError](err); no { // some do not know it, and do well without
		return nil
	}
	return err
}

// maxLater bounds the messages without an answer that are posted at a time.
const maxLater = 64

// postLater posts a message that has no answer, once there is room for it.
func (p *poster) postLater(ctx context.Context, post func(context.Context)) error {
	select {
	case p.later <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return p.run(func() { <-p.later }, func() {
		ctx, cancel := context.WithTimeout(p.ctx, laterTimeout)
		defer cancel()
		post(ctx)
	})
}

// run begins f, which end follows. If the session has ended, only end is called.
func (p *poster) run(end, f func()) error {
	if !p.conn.Go(func() { defer end(); f() }) {
		end()
		return session.ErrClosed
	}
	return nil
}

// fail makes err the reply to a message that was not accepted, and ends the session if that is over for a cause.
func (p *poster) fail(ctx context.Context, o *peer.Outgoing, reply peer.Reply, cause error) {
	if cause != nil {
		p.conn.Calls.Refuse() // before the caller asks again
	}
	switch {
	case o.ID != 0 && errors.Is(reply.Err, wire.ErrTooLong):
		p.conn.Fail(o.ID, reply.Err)
	case o.ID != 0:
		p.conn.Settle(o.ID, reply)
	case ctx.Err() == nil:
		p.log.Debug("a message was not accepted", zap.String("method", o.Method), zap.Error(reply.Err))
	}
	if cause != nil {
		p.conn.Close(cause)
	}
}
