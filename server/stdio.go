package server

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/session"
)

const (
	// lastWords is how long requests may still be answered after the end of the input,
	// so that requests can be piped in, and lastLook how long if nobody reads the answers
	// any more. Clients that want an end sooner send SIGTERM.
	lastWords = 10 * time.Second
	lastLook  = time.Second

	// stuck is how long Serve waits for a write to a client that does not read, and
	// for a read that is to be noted in a journal.
	stuck = 2 * time.Second
)

// Serve serves one client, which sends a message a line on in and reads the
// answers on out; a Write is one message or several short ones. It returns when in ends or ctx
// does, or the client does not read any more: what is still in flight is
// cancelled, and all goroutines are awaited. An error means that reading or
// writing failed.
//
// At the end, in is closed if it is an [io.Closer]. A Read that then still does
// not return, as of a terminal, is abandoned.
//
// With a journal in which another router has written, Serve goes on where that one
// was killed; nil keeps none. Afterwards, [Journal.Closed] says whether its memory
// may be used for something else.
func (s *Server) Serve(ctx context.Context, in io.Reader, out io.Writer, j *Journal) error {
	outer := ctx
	ctx, end := context.WithCancelCause(context.WithoutCancel(outer))
	defer end(nil)
	defer context.AfterFunc(outer, func() { end(errEnding) })()
	p := &pipe{end: end, journal: j, work: make(chan *request)}
	p.queue = newQueue(out, j, p.failed)
	p.conversation = s.converse(p)
	s.router.Attach(p.conversation)
	reading := make(chan struct{})
	go func() {
		defer close(reading)
		p.read(ctx, in)
	}()

	<-ctx.Done()
	if closer, ok := in.(io.Closer); ok {
		closer.Close()
	}
	if j != nil { // what was read just now is to be noted
		defer func() {
			select {
			case <-reading:
				j.close()
			case <-time.After(stuck):
			}
		}()
	}
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		p.conversation.close()
		p.answers.Wait()
		p.workers.Wait()
		p.queue.close()
	}()
	select {
	case <-finished:
	case <-time.After(stuck):
		p.queue.fail(errUnread)
		return errors.New("the client does not read its answers")
	}
	if cause := context.Cause(ctx); cause != io.EOF && outer.Err() == nil {
		return cause
	}
	return nil
}

// A pipe is the connection to one client, on which both eras may be spoken.
type pipe struct {
	conversation *conversation
	end          context.CancelCauseFunc
	journal      *Journal // nil if there is none
	queue        *queue
	answers      sync.WaitGroup // requests that are being answered
	workers      sync.WaitGroup // goroutines that answer, or wait for something to answer
	idle         atomic.Int32   // of them
	work         chan *request  // to an idle one
}

// drain lets requests be answered whose client has said all that it has to say, as
// long as the answers can be read.
func (p *pipe) drain(ctx context.Context) {
	out, tells := p.queue.out.(interface{ HasReader() bool })
	for end := time.Now().Add(lastWords); time.Now().Before(end) && ctx.Err() == nil; {
		if p.conversation.drain(ctx, lastLook) || tells && !out.HasReader() {
			return
		}
	}
}

// read takes lines until the input ends.
func (p *pipe) read(ctx context.Context, in io.Reader) {
	var left []byte
	if e := p.journal.inherit(); e != nil {
		p.resume(ctx, e)
		left = e.unread
	}
	lines := wire.NewReader(p.journal.input(in, left), wire.MaxLine)
	for {
		p.journal.passed(lines)
		line, err := lines.Next()
		switch {
		case ctx.Err() != nil:
			return // a line stays in the journal as unread
		case err == nil:
			if !p.take(ctx, line, lines) {
				return // likewise
			}
		case errors.Is(err, wire.ErrTooLong):
			p.reply(refusal(nil, errTooLong))
		case errors.Is(err, io.EOF):
			p.drain(ctx)
			for _, id := range p.conversation.abandon() {
				p.reply(refusal(id, &session.Error{Code: session.CodeInternal, Message: "the client's input ended before the request was answered"}))
			}
			p.end(io.EOF)
			return
		default:
			p.end(fmt.Errorf("read from the client: %w", err))
			return
		}
	}
}

// errEnding is what becomes of requests that are under way when the router is told
// to end.
var errEnding = &session.Error{Code: session.CodeInternal, Message: "the router ended while the request was under way; whether it was carried out is not known"}

var errTooLong = &session.Error{Code: session.CodeInvalidRequest, Message: fmt.Sprintf("message longer than %d MiB", wire.MaxLine>>20)}

// take handles one line, which is from the reader. It reports whether it did: a
// request that comes at the end is left to another router.
func (p *pipe) take(ctx context.Context, line []byte, from *wire.Reader) bool {
	if line[0] == '[' && bytes.IndexByte(line, hole) < 0 {
		return p.batch(ctx, line, from)
	}
	m, err := parse(line)
	switch {
	case err != nil && bytes.IndexByte(line, hole) >= 0: // a router was killed while it read the line
		p.reply(refusal(looseID(line), errRouterLost))
	case err != nil:
		p.reply(refusal(m.ID, err))
	case m.IsResponse():
		p.conversation.responded(m)
	case m.IsNotification():
		p.note(m, line)
		p.conversation.notified(m)
	default:
		return p.request(ctx, m, line, from)
	}
	return true
}

func (p *pipe) request(ctx context.Context, m wire.Message, line []byte, from *wire.Reader) (taken bool) {
	r, err := p.conversation.begin(ctx, m, p)
	if err == errClosed {
		return false
	}
	if err != nil {
		id := m.ID
		if err == errIDInUse {
			id = nil // with it, this would pass for the answer to the request that is in flight
		}
		p.reply(refusal(id, err))
		return true
	}
	p.note(m, line)
	r.slot = p.journal.begin(r.id)
	p.journal.passed(from) // from now on it is an open request, and no longer unread
	p.answers.Add(1)
	if methods[m.Method].quick {
		p.answer(r, false)
		return true
	}
	select {
	case p.work <- r:
	default:
		p.workers.Go(func() { p.serve(ctx, r) })
	}
	return true
}

// reply sends what the goroutine that reads has to say, which must not wait for
// the client.
func (p *pipe) reply(message []byte) { p.queue.answer(message, noSlot, false) }

func (p *pipe) answer(r *request, write bool) {
	defer p.answers.Done()
	if line := r.run(); line != nil {
		p.queue.answer(line, r.slot, write)
		return
	}
	if !p.isLeft(r) {
		p.journal.end(r.slot)
	}
}

// isLeft reports whether a request that was not answered is left to another router.
func (p *pipe) isLeft(r *request) bool {
	cause := context.Cause(r.ctx)
	return cause == errClosed || cause == errEnding
}

// maxIdle bounds the goroutines that wait for a request. A new one for each would
// have to grow its stack each time.
const maxIdle = 8

// serve answers the request, and those that come while it is idle.
func (p *pipe) serve(ctx context.Context, r *request) {
	for {
		p.answer(r, true)
		if p.idle.Add(1) > maxIdle {
			p.idle.Add(-1)
			return
		}
		select {
		case r = <-p.work:
			p.idle.Add(-1)
		case <-ctx.Done():
			return
		}
	}
}

// parse finds the envelope of a message, or says what is wrong with it.
func parse(line []byte) (wire.Message, error) {
	m, err := wire.Parse(line)
	if err == nil && m.Version != nil && string(m.Version) != `"2.0"` {
		return m, errVersion
	}
	if err == nil {
		return m, nil
	}
	code := int64(session.CodeInvalidRequest)
	if !wire.Valid(line) {
		code = session.CodeParse
	}
	return m, &session.Error{Code: code, Message: err.Error()}
}

var errVersion = invalidRequest(`jsonrpc must be "2.0"`)

// send implements [outlet].
func (p *pipe) send(message []byte) error { return p.queue.send(message) }

// failed ends all, since nothing can be written any more.
func (p *pipe) failed(err error) {
	switch {
	case errors.Is(err, syscall.EPIPE), errors.Is(err, io.ErrClosedPipe), errors.Is(err, os.ErrClosed):
		p.end(io.EOF) // the client has gone: the input ends too, sooner or later
	default:
		p.end(fmt.Errorf("write to the client: %w", err))
	}
}
