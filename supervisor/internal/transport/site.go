package transport

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/oauth"
	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/urls"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/peer"
)

const (
	dialTimeout = 10 * time.Second
	// maxRefusal bounds the bytes that are read of the body of an error.
	maxRefusal = 1 << 20
	// shown is how much of such a body an error quotes, in bytes.
	shown = 200

	eventStream = "text/event-stream"
)

// A Site is the address of a remote server and an HTTP client for it, with
// connections of its own.
type Site struct {
	Access // Hide and HideTokens are set
	url    *url.URL
	agent  string
	client *http.Client

	headers  atomic.Pointer[map[string]string] // at first those of the Access
	renewing chan struct{}                     // holds an item while they are renewed
	renewed  time.Time                         // when that was; guarded by renewing
}

// An Access is the part of an entry that a site needs besides its address.
type Access struct {
	Headers map[string]string // of all requests

	// Renew returns new headers after the server has refused a request. It is called once a
	// minute at most. nil if the headers can't be others.
	Renew func(context.Context) (map[string]string, error)

	// Tokens give the requests that have no Authorization header their bearer token; may be
	// nil.
	Tokens Tokens

	Hide func(string) string // replaces secrets in texts of the server; may be nil

	// HideTokens replaces the tokens of the login in a message, so that no client and no catalog
	// has them. It returns another slice if it replaces some. nil for nothing.
	HideTokens func(message []byte) []byte
}

// ErrURL is an url that can't be used. It does not quote the url, which may hold a secret.
var ErrURL = errors.New("its url is no http or https url")

// NewSite returns the site at the url. version is the router's. Close must be called. The
// error is [ErrURL].
func NewSite(address string, a Access, version string) (*Site, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, ErrURL
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DialContext = (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext
	t.TLSHandshakeTimeout = dialTimeout
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 8, 8
	s := &Site{
		Access:   a,
		url:      u,
		agent:    "metarouter/" + version,
		client:   &http.Client{Transport: t, CheckRedirect: checkRedirect},
		renewing: make(chan struct{}, 1),
	}
	if s.Hide == nil {
		s.Hide = func(text string) string { return text }
	}
	if s.HideTokens == nil {
		s.HideTokens = func(message []byte) []byte { return message }
	}
	s.headers.Store(&a.Headers)
	return s, nil
}

// Close closes the connections that are not in use.
func (s *Site) Close() { s.client.CloseIdleConnections() }

// A RedirectError is a redirect that is not followed.
type RedirectError struct{ Reason string }

func (e *RedirectError) Error() string { return e.Reason }

// checkRedirect follows only redirects to the same origin: the entry's headers and the
// token of its login are secrets.
func checkRedirect(next *http.Request, via []*http.Request) error {
	first := via[0]
	to := (&url.URL{Scheme: next.URL.Scheme, Host: next.URL.Host, Path: next.URL.Path}).String()
	switch {
	case !oauth.SameOrigin(first.URL, next.URL):
		return &RedirectError{"it redirects to " + to + ", where the entry's headers are not sent; if that is right, put this url into the entry"}
	case first.Method != next.Method:
		return &RedirectError{"it redirects to " + to + " in a way that turns a POST into a GET; put this url into the entry"}
	case len(via) >= 5:
		return &RedirectError{"it redirects again and again"}
	}
	return nil
}

// request returns a request with the entry's headers. accept is its Accept.
func (s *Site) request(ctx context.Context, method, to, accept string, body []byte) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, to, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", s.agent)
	for name, value := range *s.headers.Load() {
		if strings.EqualFold(name, "Host") {
			r.Host = value
		} else {
			r.Header.Set(name, value)
		}
	}
	r.Header.Set("Accept", accept)
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	return r, nil
}

// renewEvery is the least time between two renewals of a site's headers: a server that
// refuses everything must not have a command run for each request.
const renewEvery = time.Minute

// renewHeaders reports whether the site has other headers than those with which a request was refused. It renews them if no
// other request did.
func (s *Site) renewHeaders(ctx context.Context, refused *map[string]string) (others bool, err error) {
	select {
	case s.renewing <- struct{}{}:
		defer func() { <-s.renewing }()
	case <-ctx.Done():
		return false, nil
	}
	switch {
	case s.headers.Load() != refused:
		return true, nil
	case !s.renewed.IsZero() && time.Since(s.renewed) < renewEvery:
		return false, nil
	}
	s.renewed = time.Now()
	fresh, err := s.Renew(ctx)
	if err != nil || maps.Equal(fresh, *refused) {
		return false, err
	}
	s.headers.Store(&fresh)
	return true, nil
}

// send sends the request once.
func (s *Site) send(r *http.Request) (*http.Response, error) {
	var sent atomic.Bool
	ctx := httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	resp, err := s.client.Do(r.WithContext(ctx))
	if err = urls.Cause(err); err != nil {
		if e, ok := errors.AsType[*RedirectError](err); ok {
			return nil, e
		}
		certainty := session.ErrNotSent
		if sent.Load() {
			certainty = session.ErrClosed
		}
		return nil, fmt.Errorf("%w: reach %s: %w", certainty, r.URL.Host, err)
	}
	return resp, nil
}

// A StatusError is an HTTP response that does not answer the request.
type StatusError struct {
	Status int
	Text   string // the beginning of its body, or the title of the page that it is
	Advice string // when to try again, as the server says; "" if it does not
}

// NotHere reports whether err says that the server of the url has another transport or era. "400
// Bad Request, 404 Not Found, or 405 Method Not Allowed" are how servers of one
// transport answer the other (2026-07-28, transports/streamable-http); web servers that know no POST also answer 406, 415 or 501.
func NotHere(err error) bool {
	e, ok := errors.AsType[*StatusError](err)
	return ok && slices.Contains([]int{400, 404, 405, 406, 415, 501}, e.Status)
}

// statusError returns the error of a response.
func (s *Site) statusError(resp *http.Response, body []byte) *StatusError {
	text := titleOf(s.Hide(string(body[:min(len(body), maxRefusal)])))
	text = strings.Join(strings.Fields(strings.ToValidUTF8(text[:min(len(text), shown)], "")), " ")
	return &StatusError{resp.StatusCode, text, retryAdvice(resp)}
}

func (e *StatusError) Error() string {
	s := fmt.Sprintf("the server answered HTTP %d %s", e.Status, http.StatusText(e.Status))
	if e.Text != "" {
		s += ": " + e.Text
	}
	if e.Advice != "" {
		s += "; " + e.Advice
	}
	return s
}

// hideError hides secrets in the JSON-RPC error of a message, which the server may have made
// of a request's headers.
func (s *Site) hideError(m *wire.Message) {
	if m.Error == nil {
		return
	}
	if hidden := s.Hide(string(m.Error)); hidden != string(m.Error) {
		if m.Error = json.RawMessage(hidden); !json.Valid(m.Error) { // the replacement has quotes
			m.Error = wire.Marshal(&session.Error{Code: session.CodeInternal, Message: "the server's error contains a secret"})
		}
	}
}

func isEventStream(resp *http.Response) bool {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return kind == eventStream
}

// readBody reads the whole of a response that may be long, without the byte order mark that some servers write.
func readBody(resp *http.Response) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, wire.MaxLine+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: the answer broke off: %w", session.ErrClosed, err)
	case len(body) > wire.MaxLine:
		return nil, wire.ErrTooLong
	}
	return bytes.TrimPrefix(body, wire.BOM), nil
}

// readRefusal reads the body of an error. m is the JSON-RPC error in it, if any.
func readRefusal(resp *http.Response) (body []byte, m wire.Message, code int64) {
	body, _ = io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	resp.Body.Close()
	m, err := wire.Parse(bytes.TrimSpace(body))
	if err != nil || m.Error == nil || m.Fault != nil {
		return body, wire.Message{}, 0
	}
	e, _ := errors.AsType[*session.Error](replyError(m))
	return body, m, e.Code
}

// replyError returns the error that a message holds.
func replyError(m wire.Message) error {
	_, err := peer.Reply{Message: m}.Result()
	return err
}

func discardBody(resp *http.Response) {
	io.Copy(io.Discard, io.LimitReader(resp.Body, maxRefusal))
	resp.Body.Close()
}
