package transport

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"go.uber.org/zap"

	"github.com/mcp-metarouter/metarouter/internal/oauth"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/peer"
)

// SSE is the link over HTTP with SSE, the transport of revision 2024-11-05: messages
// to the server are POSTs to a url that it names, and all that it sends comes on one
// event stream. The session is over when that ends.
type SSE struct {
	poster
	stream *wire.EventReader
	body   io.Closer
	to     string // the url to which messages are posted
}

// OpenSSE opens the event stream of the server at the site, and waits until ctx
// ends for the url that messages are posted to. [SSE.On] and [SSE.Start] come next.
func OpenSSE(ctx context.Context, s *Site, log *zap.Logger) (_ *SSE, err error) {
	l := &SSE{poster: poster{site: s, log: log, later: make(chan struct{}, maxLater)}}
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
	resp, err := s.events(l.ctx, func() (*http.Request, error) {
		return s.request(l.ctx, http.MethodGet, s.url.String(), eventStream, nil)
	})
	if err != nil {
		return nil, err
	}
	l.stream, l.body = wire.NewEventReader(resp.Body, wire.MaxLine), resp.Body
	if l.to, err = endpoint(l.stream, resp.Request.URL); err != nil {
		resp.Body.Close()
		return nil, err
	}
	return l, nil
}

// On returns the link, which is the connection's from now on.
func (l *SSE) On(c *peer.Conn) peer.Link {
	l.conn = c
	return l
}

// Start begins to read the event stream, until the session ends.
func (l *SSE) Start() {
	l.stream.Open = &l.conn.OpenEvent
	l.conn.Go(l.read)
}

// endpoint waits for the first event, which says where messages are posted.
func endpoint(stream *wire.EventReader, base *url.URL) (string, error) {
	for {
		ev, err := stream.Next()
		if err != nil {
			return "", fmt.Errorf("the server's event stream ended before it named its endpoint: %w", err)
		}
		if ev.Name != "endpoint" {
			continue
		}
		to, err := base.Parse(string(ev.Data))
		if err != nil || !oauth.SameOrigin(base, to) {
			return "", errors.New("the server names an endpoint at another place than its url, where the entry's headers are not sent")
		}
		return to.String(), nil
	}
}

// read receives the server's messages until its stream ends.
func (l *SSE) read() {
	defer l.body.Close()
	_, err := l.events(l.stream, false, func(ev wire.Event) bool {
		if isMessage(ev, false) {
			receiveAll(l.conn, l.site.HideTokens(ev.Data), func(m wire.Message) error {
				l.site.hideError(&m)
				return l.conn.Receive(m, 0)
			})
		}
		return false
	})
	if errors.Is(err, io.EOF) {
		err = errors.New("the server closed its event stream")
	}
	l.conn.Close(err)
}

// Send implements [peer.Link].
func (l *SSE) Send(ctx context.Context, o *peer.Outgoing) error {
	if o.Method == peer.Initialized {
		return l.initialized(ctx, func(ctx context.Context) error { return l.post(ctx, o) })
	}
	if o.ID == 0 {
		return l.postLater(ctx, func(ctx context.Context) { l.deliver(ctx, o) })
	}
	// The answer comes on the event stream, so nothing is lost with the response.
	call, abort := context.WithTimeout(l.ctx, laterTimeout)
	forget := context.AfterFunc(ctx, abort)
	return l.run(abort, func() {
		defer forget()
		l.deliver(call, o)
	})
}

// End aborts all requests under way, and the event stream.
func (l *SSE) End() { l.abort() }

// deliver posts a message. If that fails, the reason is the reply to the request.
func (l *SSE) deliver(ctx context.Context, o *peer.Outgoing) {
	if err := l.post(ctx, o); err != nil {
		var cause error
		if o.Method != peer.Initialize { // else the handshake fails by itself
			cause = sessionEnd(err, 0)
		}
		l.fail(ctx, o, peer.Reply{Err: err}, cause)
	}
}

func (l *SSE) post(ctx context.Context, o *peer.Outgoing) error {
	resp, err := l.site.patient(ctx, o.Repeatable, func() (*http.Request, error) {
		r, err := l.site.request(ctx, http.MethodPost, l.to, "*/*", o.Line)
		if err == nil {
			trace(r.Header, o)
		}
		return r, err
	})
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
	case m.Error != nil && o.ID != 0:
		l.site.hideError(&m)
		return replyError(m)
	}
	return l.site.statusError(resp, body)
}
