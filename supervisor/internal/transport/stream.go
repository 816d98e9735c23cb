package transport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/peer"
)

const (
	// The pause before an event stream is asked for again, unless the server says
	// how long the first shall be: it doubles while nothing comes.
	minReconnect, maxReconnect = time.Second, 30 * time.Second

	// leastRetry and mostRetry bound the pause that the server asks for.
	leastRetry, mostRetry = 100 * time.Millisecond, time.Minute

	// maxResumes is how often the rest of an answer is asked for without success.
	maxResumes = 5

	// lostTimeout is how long the answer may take to come on the server's own stream
	// after the server has ended the request's stream and can't resume it.
	lostTimeout = 15 * time.Second

	// lingerTimeout is how long a stream may stay open after the answer, so that its
	// connection can be used again.
	lingerTimeout = time.Second
)

// A position is how far an event stream has been read.
type position struct {
	id    string        // of the last event that had one
	retry time.Duration // as the server asked; 0 if it did not
	pause time.Duration // the last one since an event came
	tries int           // connections since the last event
}

func (at *position) note(ev wire.Event) {
	if ev.HasID {
		at.id = ev.ID
	}
	if ev.Retry > 0 {
		at.retry = min(max(ev.Retry, leastRetry), mostRetry)
	}
	at.pause, at.tries = 0, 0
}

// wait returns how long to wait before the next connection.
func (at *position) wait() time.Duration {
	at.tries++
	at.pause = max(cmp.Or(at.retry, minReconnect), min(2*at.pause, maxReconnect))
	return at.pause
}

// follow reads the event stream that answers a request until the answer has
// come. Where one of the legacy era breaks, it is resumed.
func (l *Streamable) follow(ctx context.Context, resp *http.Response, o *peer.Outgoing, revision string) error {
	var at position
	for {
		answered, err := l.read(resp.Body, o, &at, revision)
		if answered {
			late := time.AfterFunc(lingerTimeout, func() { resp.Body.Close() })
			discardBody(resp)
			late.Stop()
		}
		resp.Body.Close()
		switch {
		case answered || errors.Is(err, wire.ErrTooLong):
			return err
		case at.id == "" || revision >= session.Modern:
			if at.retry > 0 {
				signal.Within(ctx.Done(), lostTimeout) // it ended the stream on purpose, and may answer on its own
			}
			return fmt.Errorf("%w: its event stream ended before the answer", session.ErrClosed)
		}
		if resp, err = l.resume(ctx, &at); err != nil {
			return fmt.Errorf("%w: its event stream ended before the answer, and can't be resumed: %w", session.ErrClosed, err)
		}
	}
}

// resume asks for the rest of a stream that has ended.
func (l *Streamable) resume(ctx context.Context, at *position) (*http.Response, error) {
	for {
		if signal.Within(ctx.Done(), at.wait()) {
			return nil, context.Cause(ctx)
		}
		resp, err := l.get(ctx, at.id)
		if e, ok := errors.AsType[*StatusError](err); err == nil || at.tries >= maxResumes || ok && e.Status < 500 || ctx.Err() != nil {
			return resp, err
		}
	}
}

// listen receives messages that the server sends without a request, if it offers that, until
// the session has ended. begun is called when the stream is open, or was refused.
func (l *Streamable) listen(begun func()) {
	defer begun()
	var at position
	for opened := false; ; {
		resp, err := l.get(l.ctx, at.id)
		begun()
		refusal, refused := errors.AsType[*StatusError](err)
		needs, ok := errors.AsType[*NeedsAuthError](err)
		switch {
		case ok && opened && needs.Login != nil && needs.forAll():
			l.conn.Close(needs)
			return
		case err == nil:
			opened = true
			l.read(resp.Body, new(peer.Outgoing), &at, "")
			resp.Body.Close()
		case !opened && !errors.Is(err, session.ErrNotSent) && !errors.Is(err, session.ErrClosed) && !isBusy(refusal):
			return // "405 Method Not Allowed, indicating that the server does not offer an SSE stream"
		case refused && refusal.Status == http.StatusNotFound:
			l.conn.Close(errForgotten)
			return
		}
		if signal.Within(l.ctx.Done(), at.wait()) {
			return
		}
	}
}

// isBusy reports whether the answer may be another one later.
func isBusy(e *StatusError) bool {
	return e != nil && (e.Status == http.StatusTooManyRequests || e.Status > http.StatusNotImplemented)
}

// get opens an event stream, after the event lastID if that is not "".
func (l *Streamable) get(ctx context.Context, lastID string) (*http.Response, error) {
	return l.site.events(ctx, func() (*http.Request, error) {
		r, err := l.request(ctx, http.MethodGet, eventStream, nil)
		if err == nil && lastID != "" {
			r.Header.Set("Last-Event-ID", lastID)
		}
		return r, err
	})
}

// events sends the request that build returns, as do does. The response is an event stream.
func (s *Site) events(ctx context.Context, build func() (*http.Request, error)) (*http.Response, error) {
	resp, err := s.do(ctx, build)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK || !isEventStream(resp) {
		body, _, _ := readRefusal(resp)
		return nil, s.statusError(resp, body)
	}
	return resp, nil
}

// read receives the messages on the stream of the request o, or on the server's own if
// the ID of o is 0, until the answer has come or the stream ends.
func (l *Streamable) read(body io.Reader, o *peer.Outgoing, at *position, revision string) (answered bool, err error) {
	stream := wire.NewEventReader(body, wire.MaxLine)
	stream.Open = &o.OpenEvent
	return l.events(stream, o.ID != 0, func(ev wire.Event) (answered bool) {
		if ev.Cut && !wire.Valid(ev.Data) { // a part, which must come again
			return false
		}
		at.note(ev)
		return isMessage(ev, o.ID != 0) && l.accept(ev.Data, o, revision)
	})
}

// events calls take with the events of a stream until it returns true, or the stream ends. A stream without an answer
// goes on after an event that is too long.
func (p *poster) events(stream *wire.EventReader, answers bool, take func(wire.Event) (answered bool)) (answered bool, err error) {
	for {
		p.conn.Budget.Pace(p.conn.Done())
		ev, err := stream.Next()
		switch {
		case errors.Is(err, wire.ErrTooLong) && !answers:
			p.conn.SkipLine(nil, stream.Skipped(), err)
		case err != nil:
			return false, err
		}
		if take(ev) {
			return true, nil
		}
	}
}

// isMessage reports whether the event holds a message. In answer to a request, some servers name
// the event otherwise.
func isMessage(ev wire.Event, answers bool) bool {
	switch {
	case len(ev.Data) == 0:
		return false
	case ev.Name == "" || ev.Name == "message":
		return true
	}
	return answers && wire.Member(ev.Data, "jsonrpc") != nil
}
