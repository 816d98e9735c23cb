package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/sse"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/session"
)

// eventLink is the link over HTTP with SSE, the transport of revision 2024-11-05:
// messages to the server are POSTs to an address that it names, and all that it
// says comes on one event stream. The session is over when that ends.
type eventLink struct {
	peer   *peer
	site   *site
	log    *zap.Logger
	to     string        // where messages are posted
	asides chan struct{} // as of streamable

	ctx   context.Context // of all that is under way
	abort context.CancelFunc
}

// openEventLink opens the event stream, and waits for the address until ctx ends.
func openEventLink(ctx context.Context, p *peer, s *site, log *zap.Logger) (_ *eventLink, err error) {
	l := &eventLink{peer: p, site: s, log: log, asides: make(chan struct{}, asideQueue)}
	l.ctx, l.abort = context.WithCancel(context.Background()) // longer than ctx
	opened := context.AfterFunc(ctx, l.abort)
	defer func() {
		if !opened() || err != nil {
			l.abort()
		}
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	}()
	r, err := s.request(l.ctx, http.MethodGet, s.url.String(), eventStream, nil)
	if err != nil {
		return nil, err
	}
	resp, err := s.do(r)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK || !isEventStream(resp) {
		body, _, _ := readRefusal(resp)
		return nil, newStatusError(resp, body)
	}
	stream := sse.NewReader(resp.Body, wire.MaxLine)
	if l.to, err = endpoint(stream, resp.Request.URL); err != nil {
		resp.Body.Close()
		return nil, err
	}
	p.link = l
	p.spawn(func() {
		defer resp.Body.Close()
		l.read(stream)
	})
	return l, nil
}

// endpoint waits for the first event, which says where messages are posted.
func endpoint(stream *sse.Reader, base *url.URL) (string, error) {
	for {
		ev, err := stream.Next()
		if err != nil {
			return "", fmt.Errorf("the server's event stream ended before it named its endpoint: %w", err)
		}
		if ev.Name != "endpoint" {
			continue
		}
		to, err := base.Parse(string(ev.Data))
		if err != nil || !sameOrigin(base, to) {
			return "", errors.New("the server names an endpoint at another place than its url, where the entry's headers are not sent")
		}
		return to.String(), nil
	}
}

// read takes in what the server says until its stream ends.
func (l *eventLink) read(stream *sse.Reader) {
	for {
		ev, err := stream.Next()
		if errors.Is(err, wire.ErrTooLong) {
			l.peer.skip(nil, err)
			continue
		}
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = errors.New("the server closed its event stream")
			}
			l.peer.close(err)
			return
		}
		if len(ev.Data) > 0 && (ev.Name == "" || ev.Name == "message") {
			l.peer.each(ev.Data, func(m wire.Message) error { return l.peer.take(m, 0) })
		}
	}
}

// send implements [link].
func (l *eventLink) send(ctx context.Context, o *outgoing) error {
	if o.method == initialized { // nothing may overtake it
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(l.ctx, cancel)()
		err := l.post(ctx, o)
		if _, no := errors.AsType[*statusError](err); no { // some do not know it, and do well without
			return nil
		}
		return err
	}
	// The answer comes on the event stream, so nothing is lost with the response.
	call, abort := context.WithTimeout(l.ctx, asideTimeout)
	forget := context.AfterFunc(ctx, abort)
	if !l.peer.spawn(func() {
		defer abort()
		defer forget()
		l.deliver(call, o)
	}) {
		abort()
		return session.ErrClosed
	}
	return nil
}

// aside implements [link].
func (l *eventLink) aside(o *outgoing) error {
	select {
	case l.asides <- struct{}{}:
	default:
		return errors.New("the server does not read, or asks too much at once")
	}
	if !l.peer.spawn(func() {
		defer func() { <-l.asides }()
		ctx, cancel := context.WithTimeout(l.ctx, asideTimeout)
		defer cancel()
		l.deliver(ctx, o)
	}) {
		<-l.asides
	}
	return nil
}

// end implements [remote].
func (l *eventLink) end() { l.abort() }

// deliver posts a message. What can't be posted is answered with the reason.
func (l *eventLink) deliver(ctx context.Context, o *outgoing) {
	err := l.post(ctx, o)
	if err == nil {
		return
	}
	var cause error
	if e, ok := errors.AsType[*needsAuthError](err); ok && e.forAll() && o.method != initialize {
		cause = e
	} else if errors.Is(err, errForgotten) {
		cause = errForgotten
	}
	if cause != nil {
		l.peer.refuse() // before who learns of it asks again
	}
	if o.id != 0 {
		l.peer.settle(o.id, reply{err: err})
	} else if ctx.Err() == nil {
		l.log.Debug("a message was not accepted", zap.String("method", o.method), zap.Error(err))
	}
	if cause != nil {
		l.peer.close(cause)
	}
}

func (l *eventLink) post(ctx context.Context, o *outgoing) error {
	r, err := l.site.request(ctx, http.MethodPost, l.to, "*/*", o.line)
	if err != nil {
		return fmt.Errorf("%w: %w", session.ErrNotSent, err)
	}
	trace(r.Header, o)
	resp, err := l.site.do(r)
	if err != nil {
		return asUnsent(err)
	}
	if resp.StatusCode/100 == 2 {
		discardBody(resp)
		return nil
	}
	body, m, _ := readRefusal(resp)
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return fmt.Errorf("%w: %w", session.ErrNotSent, errForgotten)
	case m.Error != nil && o.id != 0:
		return replyError(m)
	}
	return newStatusError(resp, body)
}
