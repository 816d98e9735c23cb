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
// One goroutine reads, another writes: what it has begun to write it finishes,
// whatever becomes of whoever asked for it, so that no message is torn.
type lines struct {
	w     io.Writer
	stall time.Duration  // how long the server may leave what is written unread
	queue chan *outgoing // to write; whoever hands one over waits until its turn has come
	later chan *outgoing // what nobody waits for
	ended <-chan struct{}

	broken chan struct{} // closed when nothing can be written any more
	torn   error         // why; valid after broken
}

// newLines returns a link that writes to w until ended is closed. It lives while
// write runs.
func newLines(w io.Writer, stall time.Duration, ended <-chan struct{}) *lines {
	return &lines{
		w:      w,
		stall:  stall,
		queue:  make(chan *outgoing),
		later:  make(chan *outgoing, asideQueue),
		ended:  ended,
		broken: make(chan struct{}),
	}
}

// write writes what there is to write until the session has ended. If that
// fails, because the server is gone or has not read for too long, it breaks the
// link, and whoever runs it must end the session.
func (l *lines) write() {
	for {
		var o *outgoing
		select {
		case o = <-l.queue:
		case o = <-l.later:
		case <-l.ended:
			return
		}
		if n, err := l.writeLine(o.line); err != nil {
			o.unsent.Store(n == 0)
			l.torn = fmt.Errorf("write to the server's stdin: %w", err)
			close(l.broken)
			return
		}
	}
}

func (l *lines) writeLine(line []byte) (n int, err error) {
	deadline, _ := l.w.(interface{ SetWriteDeadline(time.Time) error })
	for n < len(line) && err == nil {
		if deadline != nil {
			deadline.SetWriteDeadline(time.Now().Add(l.stall))
		}
		var m int
		m, err = l.w.Write(line[n:min(len(line), n+writeChunk)])
		n += m
	}
	return n, err
}

// send implements [link].
func (l *lines) send(ctx context.Context, o *outgoing) error {
	select {
	case l.queue <- o:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-l.ended:
		return session.ErrClosed
	}
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
