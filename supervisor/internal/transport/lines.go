package transport

import (
	"context"
	"io"
	"regexp"
	"sync/atomic"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/peer"
)

const writeChunk = 256 << 10 // bytes

// Lines is the link over a pair of byte streams, one JSON-RPC message a line. See [Lines.Read] for
// servers that write something else.
// The official Go SDK's transport is not used for this: it ends at the first line that is no
// message, and decodes results.
//
// The goroutine that sends a message writes it, as far as that does not wait for the
// server. The goroutine of Write writes the rest. A message that was begun is finished even if its
// caller gives up, so that no message is torn. The goroutine of Read reads.
type Lines struct {
	conn   *peer.Conn
	framed atomic.Bool    // the server writes and wants Content-Length headers
	banner *regexp.Regexp // matches the text before each message; nil without one. Only Read knows it
	w      Writer
	stall  time.Duration  // how long the server may leave written bytes unread
	turn   chan struct{}  // holds an item while a message is written
	rest   chan unwritten // from the holder of turn, which passes turn on with it
}

// A Writer is a server's stdin, or a connection to it.
type Writer interface {
	io.Writer
	SetWriteDeadline(time.Time) error // that fails on a closed writer, as the write does
}

// A tryWriter writes the bytes that it can write without waiting. Not all writers know.
type tryWriter interface {
	TryWrite(p []byte) (int, error)
}

// An unwritten message is one that could not be written at once.
type unwritten struct {
	message *peer.Outgoing
	written int   // bytes of it
	err     error // why no more can be written; may be nil
}

// NewLines returns a link that writes to w. A server that leaves written bytes
// unread for longer than stall breaks the link.
func NewLines(w Writer, stall time.Duration, c *peer.Conn) *Lines {
	return &Lines{
		conn:  c,
		w:     w,
		stall: stall,
		turn:  make(chan struct{}, 1),
		rest:  make(chan unwritten, 1),
	}
}

// Write writes the rests of messages until the session has ended. It returns an error if writing fails,
// because the server is gone or has not read for too long. Then its caller must end the session, and nobody
// gets a turn any more.
func (l *Lines) Write() error {
	for {
		select {
		case u := <-l.rest:
			if err := l.finish(&u); err != nil {
				u.message.Unsent.Store(u.written == 0)
				return err
			}
			<-l.turn
		case <-l.conn.Done():
			return nil
		}
	}
}

// finish writes the rest of a message.
func (l *Lines) finish(u *unwritten) error {
	if u.err != nil {
		return u.err
	}
	line := u.message.Line
	for u.written < len(line) {
		l.w.SetWriteDeadline(time.Now().Add(l.stall))
		n, err := l.w.Write(line[u.written:min(len(line), u.written+writeChunk)])
		u.written += n
		if err != nil {
			return err
		}
	}
	l.w.SetWriteDeadline(time.Time{}) // it would end later writes too
	return nil
}

// Send implements [peer.Link].
func (l *Lines) Send(ctx context.Context, o *peer.Outgoing) error {
	select {
	case l.turn <- struct{}{}:
	default:
		select {
		case l.turn <- struct{}{}:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-l.conn.Done():
			return session.ErrClosed
		}
	}
	l.frame(o)
	n, err := 0, error(nil)
	if w, ok := l.w.(tryWriter); ok {
		n, err = w.TryWrite(o.Line)
	}
	if n == len(o.Line) {
		<-l.turn
		return nil
	}
	o.Unsent.Store(err != nil && n == 0) // now, since the session may end before Write sees the error
	l.rest <- unwritten{o, n, err}
	return nil
}
