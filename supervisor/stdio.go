package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/session"
)

const (
	writeChunk = 256 << 10
	asideQueue = 64
)

// lines is the link over a pair of byte streams, one JSON-RPC message a line.
// The SDK's transport is not used for this: it ends at the first line that is no
// message, and decodes results.
//
// One goroutine reads. Whoever sends a message writes it, as far as that does not
// wait for the server; another goroutine writes the rest, and what nobody waits
// for. What was begun is finished, whatever becomes of whoever asked for it, so
// that no message is torn.
type lines struct {
	w     writer
	stall time.Duration  // how long the server may leave what is written unread
	turn  chan struct{}  // holds an item while someone writes
	rest  chan unwritten // from whoever has the turn, which goes with it
	later chan *outgoing // what nobody waits for
	ended <-chan struct{}

	broken chan struct{} // closed when nothing can be written any more
	torn   error         // why; valid after broken
}

// A writer is a server's stdin.
type writer interface {
	io.Writer
	TryWrite(p []byte) (int, error) // what can be written without waiting
	SetWriteDeadline(time.Time)
}

// Unwritten is what is left of a message that could not be written at once.
type unwritten struct {
	message *outgoing
	written int // bytes of it
}

// newLines returns a link that writes to w until ended is closed. It lives while
// write runs.
func newLines(w writer, stall time.Duration, ended <-chan struct{}) *lines {
	return &lines{
		w:      w,
		stall:  stall,
		turn:   make(chan struct{}, 1),
		rest:   make(chan unwritten, 1),
		later:  make(chan *outgoing, asideQueue),
		ended:  ended,
		broken: make(chan struct{}),
	}
}

// write writes what waits until the session has ended. If that fails, because the
// server is gone or has not read for too long, it breaks the link, and whoever
// runs it must end the session.
func (l *lines) write() {
	var waiting *outgoing // for its turn
	for {
		later, turn := l.later, (chan struct{})(nil)
		if waiting != nil {
			later, turn = nil, l.turn
		}
		var u unwritten
		select {
		case u = <-l.rest:
		case waiting = <-later:
			continue
		case turn <- struct{}{}:
			u.message, waiting = waiting, nil
		case <-l.ended:
			return
		}
		if err := l.finish(&u); err != nil {
			l.tear(u, err)
			return
		}
		<-l.turn
	}
}

// finish writes the rest of a message.
func (l *lines) finish(u *unwritten) error {
	line := u.message.line
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

// tear breaks the link in the turn of who calls it, which does not end.
func (l *lines) tear(u unwritten, err error) {
	u.message.unsent.Store(u.written == 0)
	l.torn = fmt.Errorf("write to the server's stdin: %w", err)
	close(l.broken)
}

// send implements [link].
func (l *lines) send(ctx context.Context, o *outgoing) error {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.ended:
		return session.ErrClosed
	}
	n, err := l.w.TryWrite(o.line)
	switch u := (unwritten{o, n}); {
	case err != nil:
		l.tear(u, err)
	case n < len(o.line):
		l.rest <- u
	default:
		<-l.turn
	}
	return nil
}

// aside implements [link].
func (l *lines) aside(o *outgoing) error {
	select {
	case l.later <- o:
		return nil
	default:
		return errors.New("the server does not read, or asks too much at once")
	}
}

// read takes in what the server says until r ends.
func (p *peer) read(r io.Reader) {
	lines := wire.NewReader(r, wire.MaxLine)
	for {
		line, err := lines.Next()
		if errors.Is(err, wire.ErrTooLong) {
			p.skip(nil, err)
			continue
		}
		if err != nil {
			return
		}
		if m, err := wire.Parse(line); err != nil {
			p.skip(line, err)
		} else if err := p.take(m, 0); err != nil {
			p.skip(line, err)
		}
	}
}
