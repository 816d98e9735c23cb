// Package stdio serves one client over a pair of streams, one message a line.
//
//	client ─▶ in ─▶ read ─▶ receive ─▶ Conversation.Begin ─▶ Request.Run
//	client ◀─ out ◀─ queue ◀──────────────── line ◀────────────────────┘
//
// One goroutine reads, and each request has a goroutine of its own. A queue orders the messages that are
// written, so that no goroutine that must not wait waits for the client.
package stdio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/server/internal/conversation"
)

const (
	// drainTime is how long requests may still be answered after the end of the input, so that requests can be piped in.
	// Clients that want an earlier end send SIGTERM. readerCheck is how often out is asked whether it still has a reader.
	drainTime   = 2 * time.Minute
	readerCheck = time.Second

	// stuck is how long Serve waits for one write at its end. All writes together have drainTime.
	stuck = 2 * time.Second
)

// Options say for which router Serve serves a client.
type Options struct {
	Clients *conversation.Clients
	Place   any    // of the client; see [session.Caller]
	Resumed func() // called when the client has messages that another router served before

	Node *Node // set if the client is another node; nil for any other
}

// A Node is another node. Its requests of the modern era may come from many clients. It sends no
// batches, and reads no answers once its input has ended.
type Node struct {
	Identity conversation.Identity

	// Begin lets a request in, as Begin of a conversation does. stream is the conversation of the
	// legacy era.
	Begin func(ctx context.Context, stream *conversation.Conversation, m conversation.Message, w conversation.Writer) (*conversation.Request, error)
}

// Serve serves one client, which sends one message a line on in and reads the
// answers on out. A Write is one message or several short ones. Serve returns when
// in or ctx ends, or the client does not read any more: it cancels the requests that are still in
// flight and waits for all goroutines. An error means that reading or writing
// failed.
//
// At the end, Serve closes in if it is an [io.Closer]. It abandons a Read that then
// still does not return, as of a terminal.
func Serve(ctx context.Context, o Options, in io.Reader, out io.Writer) error {
	outer := ctx
	ctx, end := context.WithCancelCause(context.WithoutCancel(outer))
	defer end(nil)
	defer context.AfterFunc(outer, func() { end(session.ErrEnding) })()
	c := &connection{end: end, resumed: o.Resumed, node: o.Node}
	c.queue = newQueue(out, c.failed)
	if o.Node != nil {
		c.conversation = o.Clients.Open(nil, c, conversation.Node, o.Node.Identity)
	} else {
		c.conversation = o.Clients.Open(o.Place, c, conversation.Stdio, conversation.Identity{})
	}
	go c.read(ctx, wire.NewReader(in, wire.MaxLine))

	<-ctx.Done()
	if closer, ok := in.(io.Closer); ok {
		closer.Close()
	}
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		c.conversation.Close()
		c.answers.Wait()
		c.queue.close()
	}()
	for late, written := time.Now().Add(drainTime), int64(-1); c.queue.written.Load() != written && time.Now().Before(late); {
		written = c.queue.written.Load()
		select {
		case <-finished:
			if cause := context.Cause(ctx); cause != io.EOF && outer.Err() == nil {
				return cause
			}
			return nil
		case <-time.After(stuck):
		}
	}
	c.queue.fail(conversation.ErrUnread)
	return errors.New("the client does not read its answers")
}

// A connection is the pair of streams to one client, on which both eras may be
// spoken. It is the [conversation.Writer] of all messages to the client.
type connection struct {
	conversation *conversation.Conversation
	end          context.CancelCauseFunc
	resumed      func()
	node         *Node // nil for a client that is no other node
	queue        *queue
	answers      sync.WaitGroup // requests that are being answered
}

// read takes lines until the input ends.
func (c *connection) read(ctx context.Context, lines *wire.Reader) {
	for {
		line, err := lines.Next()
		switch {
		case ctx.Err() != nil:
			return
		case err == nil:
			if !c.receive(ctx, line) {
				return
			}
		case errors.Is(err, wire.ErrTooLong):
			c.reply(conversation.Refusal(nil, errTooLong))
		case errors.Is(err, io.EOF):
			if c.node == nil {
				c.drain(ctx)
			}
			for _, id := range c.conversation.Requests.Abandon() {
				c.reply(conversation.Refusal(id, errInputEnded))
			}
			c.end(io.EOF)
			return
		default:
			c.end(fmt.Errorf("read from the client: %w", err))
			return
		}
	}
}

// drain lets requests be answered after the end of the input, as long as the
// answers can be read.
func (c *connection) drain(ctx context.Context) {
	out, checks := c.queue.out.(interface{ HasReader() bool })
	for end := time.Now().Add(drainTime); time.Now().Before(end) && ctx.Err() == nil; {
		if c.conversation.Requests.Drain(ctx, readerCheck) || checks && !out.HasReader() {
			return
		}
	}
}

var (
	errInputEnded = session.Internal("the client's input ended before the request was answered")
	errTooLong    = conversation.InvalidRequest(fmt.Sprintf("message longer than %d MiB", wire.MaxLine>>20))
)

// receive acts on one line. It reports false for a request that comes at the end, which gets no
// answer: if the client goes on with another router, that one gets the request again.
func (c *connection) receive(ctx context.Context, line []byte) (taken bool) {
	if line[0] == '[' && c.node == nil {
		return c.receiveBatch(ctx, line)
	}
	m, err := conversation.Parse(line)
	switch {
	case err != nil:
		c.reply(conversation.Refusal(m.ID, err))
	case m.IsResponse(), m.IsNotification():
		c.conversation.Receive(m)
		if c.resumed != nil && m.Method == "notifications/initialized" && session.IsResent(wire.Member(m.Params, "_meta")) {
			c.resumed()
		}
	default:
		return c.receiveRequest(ctx, m)
	}
	return true
}

func (c *connection) receiveRequest(ctx context.Context, m conversation.Message) (taken bool) {
	begin := c.conversation.Begin
	if c.node != nil {
		begin = func(ctx context.Context, m conversation.Message, w conversation.Writer) (*conversation.Request, error) {
			return c.node.Begin(ctx, c.conversation, m, w)
		}
	}
	r, err := begin(ctx, m, c)
	switch {
	case err == conversation.ErrClosed:
		return false
	case err == conversation.ErrIDInUse:
		c.reply(conversation.Refusal(nil, err)) // with the id, this would pass for the answer to the request that is in flight
	case err != nil:
		c.reply(conversation.Refusal(m.ID, err))
	default:
		c.answers.Add(1) // for a quick answer too: the queue may not close before it has it
		if r.Quick {
			c.answer(r, false)
		} else {
			go c.answer(r, true)
		}
	}
	return true
}

// answer runs a request and has its answer written. The goroutine that reads must not write.
func (c *connection) answer(r *conversation.Request, mayWrite bool) {
	defer c.answers.Done()
	if line := r.Run(); line != nil {
		c.queue.put(line, mayWrite)
	}
}

// receiveBatch is receive for a line that is a batch.
func (c *connection) receiveBatch(ctx context.Context, line []byte) (taken bool) {
	entries, err := conversation.Split(line, conversation.MaxBatch)
	if err == nil {
		err = conversation.TakesBatches(c.conversation)
	}
	if err != nil {
		c.reply(conversation.Refusal(nil, err))
		return true
	}
	b, err := conversation.BeginBatch(ctx, c.conversation, entries, c)
	if err != nil {
		return false
	}
	c.answers.Go(func() {
		if array := b.Run(context.Background()); array != nil {
			c.queue.put(array, true)
		}
	})
	return true
}

// reply has a message written by another goroutine, so that the goroutine that reads
// does not wait for the write. It waits while the queue is full: then no more is read
// from a client that reads nothing.
func (c *connection) reply(message []byte) {
	c.queue.put(message, false)
}

// Send implements [conversation.Writer].
func (c *connection) Send(message []byte) error { return c.queue.send(message) }

// failed ends the connection, since nothing can be written any more.
func (c *connection) failed(err error) {
	switch {
	case errors.Is(err, syscall.EPIPE), errors.Is(err, io.ErrClosedPipe), errors.Is(err, os.ErrClosed):
		c.end(io.EOF) // the client has gone: the input ends too, sooner or later
	default:
		c.end(fmt.Errorf("write to the client: %w", err))
	}
}
