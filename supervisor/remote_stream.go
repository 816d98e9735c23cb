package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/sse"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/session"
)

const (
	// The pause before an event stream is asked for again, unless the server says
	// how long the first shall be: it doubles while nothing comes.
	minReconnect, maxReconnect = time.Second, 30 * time.Second

	// leastRetry and mostRetry bound what the server says of it.
	leastRetry, mostRetry = 100 * time.Millisecond, time.Minute

	// maxResumes is how often in vain the rest of an answer is asked for.
	maxResumes = 5

	// lostWait is how long the answer may come on the server's own stream, where
	// the server has ended that of the request and cannot resume it.
	lostWait = 15 * time.Second

	// lingers is how long a stream may stay open behind the answer, so that its
	// connection can be used again.
	lingers = time.Second
)

// A position is how far an event stream has been read.
type position struct {
	id    string        // of the last event that had one
	retry time.Duration // as the server asked; 0 if it did not
	pause time.Duration // the last one since an event came
	vain  int           // connections since the last event
}

func (at *position) note(ev sse.Event) {
	if ev.HasID {
		at.id = ev.ID
	}
	if ev.Retry > 0 {
		at.retry = min(max(ev.Retry, leastRetry), mostRetry)
	}
	at.pause, at.vain = 0, 0
}

// wait returns how long to wait before the next connection.
func (at *position) wait() time.Duration {
	at.vain++
	first := at.retry
	if first == 0 {
		first = minReconnect
	}
	at.pause = max(first, min(2*at.pause, maxReconnect))
	return at.pause
}

// follow reads the event stream that answers a request until the answer has
// come. Where one of the legacy era breaks, it is resumed.
func (l *streamable) follow(ctx context.Context, resp *http.Response, o *outgoing, revision string) error {
	var at position
	for {
		answered, err := l.read(resp.Body, o, &at, revision)
		if answered {
			late := time.AfterFunc(lingers, func() { resp.Body.Close() })
			discardBody(resp)
			late.Stop()
		}
		resp.Body.Close()
		switch {
		case answered || errors.Is(err, errTooLong):
			return err
		case at.id == "" || revision >= session.Modern:
			if at.retry > 0 {
				within(ctx.Done(), lostWait) // it ended the stream on purpose, and may answer on its own
			}
			return fmt.Errorf("%w: its event stream ended before the answer", session.ErrClosed)
		}
		if resp, err = l.resume(ctx, &at); err != nil {
			return fmt.Errorf("%w: its event stream ended before the answer, and can't be resumed: %w", session.ErrClosed, err)
		}
	}
}

// resume asks for what follows in a stream that has ended.
func (l *streamable) resume(ctx context.Context, at *position) (*http.Response, error) {
	for {
		if within(ctx.Done(), at.wait()) {
			return nil, context.Cause(ctx)
		}
		resp, err := l.get(ctx, at.id)
		if e, ok := errors.AsType[*statusError](err); err == nil || at.vain >= maxResumes || ok && e.status < 500 || ctx.Err() != nil {
			return resp, err
		}
	}
}

// listen takes in what the server says by itself, if it does, until the session
// has ended. begun is called when the stream is open, or known not to be.
func (l *streamable) listen(begun func()) {
	defer begun()
	var at position
	for opened := false; ; {
		resp, err := l.get(l.ctx, at.id)
		begun()
		refusal, refused := errors.AsType[*statusError](err)
		switch {
		case err == nil:
			opened = true
			l.read(resp.Body, nil, &at, "")
			resp.Body.Close()
		case !opened && !errors.Is(err, session.ErrNotSent) && !errors.Is(err, session.ErrClosed) && !isBusy(refusal):
			return // "405 Method Not Allowed, indicating that the server does not offer an SSE stream"
		case refused && refusal.status == http.StatusNotFound:
			l.peer.close(errForgotten)
			return
		}
		if within(l.ctx.Done(), at.wait()) {
			return
		}
	}
}

// isBusy reports whether the answer may be another one later.
func isBusy(e *statusError) bool {
	return e != nil && (e.status == http.StatusTooManyRequests || e.status > http.StatusNotImplemented)
}

// get opens an event stream, after the event lastID if that is not "".
func (l *streamable) get(ctx context.Context, lastID string) (*http.Response, error) {
	r, err := l.request(ctx, http.MethodGet, eventStream, nil)
	if err != nil {
		return nil, err
	}
	if lastID != "" {
		r.Header.Set("Last-Event-ID", lastID)
	}
	resp, err := l.site.do(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK || !isEventStream(resp) {
		body, _, _ := readRefusal(resp)
		return nil, newStatusError(resp, body)
	}
	return resp, nil
}

// read takes in what comes on a stream of the request o, or of nobody if o is
// nil, until the answer has come or the stream ends.
func (l *streamable) read(body io.Reader, o *outgoing, at *position, revision string) (answered bool, err error) {
	stream := sse.NewReader(body, wire.MaxLine)
	for {
		ev, err := stream.Next()
		switch {
		case errors.Is(err, wire.ErrTooLong) && o != nil:
			return false, errTooLong
		case errors.Is(err, wire.ErrTooLong):
			l.peer.skip(nil, err)
		case err != nil:
			return false, err
		}
		at.note(ev)
		if len(ev.Data) > 0 && (ev.Name == "" || ev.Name == "message") && l.accept(ev.Data, o, revision) {
			return true, nil
		}
	}
}
