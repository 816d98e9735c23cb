package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/session"
)

const (
	// lastWords is how long requests may still be answered after the end of the
	// input, so that requests can be piped in.
	lastWords = time.Second

	// stuck is how long Run waits for a write to a client that does not read.
	stuck = 2 * time.Second
)

// Run serves one client, which sends a message a line on in and reads the
// answers, each of which is one Write, on out. It returns when in ends or ctx
// does, or the client does not read any more: what is still in flight is
// cancelled, and all goroutines are awaited. An error means that reading or
// writing failed.
//
// At the end, in is closed if it is an [io.Closer]. A Read that then still does
// not return, as of a terminal, is abandoned.
func (s *Server) Run(ctx context.Context, in io.Reader, out io.Writer) error {
	outer := ctx
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	c := &stdio{
		server:   s,
		in:       in,
		out:      out,
		done:     ctx.Done(),
		end:      end,
		messages: make(chan jsonrpc.Message),
		lane:     newLane(),
	}
	sdk, err := s.mcp.Connect(ctx, c, nil)
	if err != nil {
		return fmt.Errorf("connect the client: %w", err)
	}
	var announcing sync.WaitGroup
	announcing.Go(func() { s.announce(ctx) })
	go c.read(ctx)

	<-ctx.Done()
	if closer, ok := in.(io.Closer); ok {
		closer.Close()
	}
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		_ = sdk.Wait() // what it would say is the cause of ctx
		c.lane.close()
		announcing.Wait()
	}()
	select {
	case <-finished:
	case <-time.After(stuck):
		return errors.New("the client does not read its answers")
	}
	if cause := context.Cause(ctx); cause != io.EOF && outer.Err() == nil {
		return cause
	}
	return nil
}

// A stdio is the connection to one client. For the SDK it is both a Transport and
// its Connection, on which tool calls never come.
type stdio struct {
	server   *Server
	in       io.Reader
	done     <-chan struct{}
	end      context.CancelCauseFunc // closes done
	messages chan jsonrpc.Message    // what the SDK is to read
	lane     *lane
	opened   bool // initialize was seen; only read uses it

	mu  sync.Mutex // guards out
	out io.Writer
}

// read takes lines until the input ends.
func (c *stdio) read(ctx context.Context) {
	lines := wire.NewReader(c.in, wire.MaxLine)
	for {
		line, err := lines.Next()
		switch {
		case err == nil:
			c.take(ctx, line)
		case errors.Is(err, wire.ErrTooLong):
			c.refuse(nil, &session.Error{Code: session.CodeInvalidRequest, Message: fmt.Sprintf("message longer than %d MiB", wire.MaxLine>>20)})
		case errors.Is(err, io.EOF):
			c.lane.drain(ctx, lastWords)
			for _, id := range c.lane.abandon() {
				c.refuse(id, &session.Error{Code: session.CodeInternal, Message: "the client's input ended before the call was done"})
			}
			c.end(io.EOF)
			return
		default:
			c.end(fmt.Errorf("read from the client: %w", err))
			return
		}
	}
}

// take handles one line: a tool call goes to the lane, the rest to the SDK.
func (c *stdio) take(ctx context.Context, line []byte) {
	m, err := wire.Parse(line)
	if err != nil {
		code := int64(session.CodeInvalidRequest)
		if !wire.Valid(line) {
			code = session.CodeParse
		}
		c.refuse(m.ID, &session.Error{Code: code, Message: err.Error()})
		return
	}
	switch m.Method {
	case "tools/call":
		if m.IsRequest() {
			c.call(ctx, m)
			return
		}
	case "notifications/cancelled":
		if c.lane.cancel(wire.Member(m.Params, "requestId")) {
			return
		}
	case "initialize":
		c.opened = true
	}
	message, err := jsonrpc.DecodeMessage(line)
	if err != nil {
		c.refuse(m.ID, &session.Error{Code: session.CodeInvalidRequest, Message: err.Error()})
		return
	}
	if r, ok := message.(*jsonrpc.Request); ok && r.IsCall() && r.Method != "subscriptions/listen" {
		if err := c.lane.enter(key(r.ID), &request{}); err != nil {
			c.turnAway(m.ID, err)
			return
		}
	}
	select {
	case c.messages <- message:
	case <-c.done:
	}
}

func (c *stdio) call(ctx context.Context, m wire.Message) {
	if modern, _ := checkEra(m.Params); !modern && !c.opened {
		c.refuse(m.ID, &session.Error{Code: session.CodeInvalidRequest, Message: "tools/call before initialize"})
		return
	}
	err := c.lane.start(ctx, m.ID,
		func(ctx context.Context) (json.RawMessage, error) { return c.server.call(ctx, m.Params) },
		func(result json.RawMessage, err error) {
			if err != nil {
				c.refuse(m.ID, err)
				return
			}
			c.send(wire.AppendResult(make([]byte, 0, len(result)+64), m.ID, result))
		})
	if err != nil {
		c.turnAway(m.ID, err)
	}
}

// turnAway answers a request that the lane did not let in.
func (c *stdio) turnAway(id json.RawMessage, err error) {
	if err == errIDInUse {
		id = nil // with it, this would pass for the answer to the request that is in flight
	}
	c.refuse(id, err)
}

// refuse answers with an error. The id may be nil or invalid.
func (c *stdio) refuse(id json.RawMessage, err error) {
	if len(id) > 0 && (id[0] == '{' || id[0] == '[' || id[0] == 't' || id[0] == 'f') {
		id = nil
	}
	var e *session.Error
	if !errors.As(err, &e) {
		e = &session.Error{Code: session.CodeInternal, Message: err.Error()}
	}
	c.send(wire.AppendError(nil, id, wire.Marshal(e)))
}

// send writes one message, which ends in a line end.
func (c *stdio) send(message []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err := c.out.Write(message)
	switch {
	case err == nil:
		return nil
	case errors.Is(err, syscall.EPIPE), errors.Is(err, io.ErrClosedPipe), errors.Is(err, os.ErrClosed):
		c.end(io.EOF) // the client has gone: the input ends too, sooner or later
	default:
		c.end(fmt.Errorf("write to the client: %w", err))
	}
	return err
}

// What follows is the SDK's side.

func (c *stdio) Connect(context.Context) (mcp.Connection, error) { return c, nil }

func (c *stdio) Read(context.Context) (jsonrpc.Message, error) {
	select {
	case m := <-c.messages:
		return m, nil
	case <-c.done:
		return nil, io.EOF
	}
}

func (c *stdio) Write(_ context.Context, m jsonrpc.Message) error {
	if r, ok := m.(*jsonrpc.Response); ok {
		c.lane.answeredBySDK(key(r.ID))
		if r.Error == nil {
			return c.send(wire.AppendResult(nil, wire.Marshal(r.ID.Raw()), r.Result))
		}
	}
	line, err := jsonrpc.EncodeMessage(m)
	if err != nil {
		return err
	}
	return c.send(append(line, '\n'))
}

func (c *stdio) Close() error {
	c.end(nil)
	return nil
}

func (c *stdio) SessionID() string { return "" }

// key returns an id as the lane knows it.
func key(id jsonrpc.ID) string { return string(wire.Marshal(id.Raw())) }
