package transport

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/supervisor/internal/peer"
)

const (
	dialTimeout = 10 * time.Second
	// maxRefusal bounds what is read of the body of an error, in bytes.
	maxRefusal = 1 << 20
	// shown is how much of such a body an error quotes, in bytes.
	shown = 200

	eventStream = "text/event-stream"
)

// A Site is the address of a remote server and an HTTP client for it, with
// connections of its own.
type Site struct {
	url     *url.URL
	headers map[string]string
	agent   string
	client  *http.Client
}

// A URLError is an url that can't be used. It does not quote the url, which may hold
// a secret.
type URLError struct{}

func (*URLError) Error() string { return "its url is no http or https url" }

// NewSite returns the site at the url, whose requests carry the headers. version is
// the router's. Close must be called. The error is a [*URLError].
func NewSite(address string, headers map[string]string, version string) (*Site, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, &URLError{}
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DialContext = (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext
	t.TLSHandshakeTimeout = dialTimeout
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 8, 8
	return &Site{
		url:     u,
		headers: headers,
		agent:   "metarouter/" + version,
		client:  &http.Client{Transport: t, CheckRedirect: checkRedirect},
	}, nil
}

// Close closes the connections that are not in use.
func (s *Site) Close() { s.client.CloseIdleConnections() }

// A RedirectError is a redirect that is not followed.
type RedirectError struct{ Reason string }

func (e *RedirectError) Error() string { return e.Reason }

// checkRedirect follows only redirects to the same origin: the entry's headers hold
// secrets.
func checkRedirect(next *http.Request, via []*http.Request) error {
	first := via[0]
	to := (&url.URL{Scheme: next.URL.Scheme, Host: next.URL.Host, Path: next.URL.Path}).String()
	switch {
	case !sameOrigin(first.URL, next.URL):
		return &RedirectError{"it redirects to " + to + ", where the entry's headers are not sent; if that is right, put this url into the entry"}
	case first.Method != next.Method:
		return &RedirectError{"it redirects to " + to + " in a way that turns a POST into a GET; put this url into the entry"}
	case len(via) >= 5:
		return &RedirectError{"it redirects again and again"}
	}
	return nil
}

func sameOrigin(a, b *url.URL) bool {
	return a.Scheme == b.Scheme && strings.EqualFold(a.Hostname(), b.Hostname()) && port(a) == port(b)
}

func port(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Port()
	case u.Scheme == "https":
		return "443"
	}
	return "80"
}

// request returns a request with the entry's headers. accept is its Accept.
func (s *Site) request(ctx context.Context, method, to, accept string, body []byte) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, to, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", s.agent)
	for name, value := range s.headers {
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

// do sends the request. An error wraps [session.ErrNotSent] or
// [session.ErrClosed], according to what is known of it, or is a
// [*NeedsAuthError] or a [*RedirectError].
func (s *Site) do(r *http.Request) (*http.Response, error) {
	var sent atomic.Bool
	ctx := httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	resp, err := s.client.Do(r.WithContext(ctx))
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // without the url, which may hold a secret
	}
	if err != nil {
		if e, ok := errors.AsType[*RedirectError](err); ok {
			return nil, e
		}
		certainty := session.ErrNotSent
		if sent.Load() {
			certainty = session.ErrClosed
		}
		return nil, fmt.Errorf("%w: reach %s: %w", certainty, r.URL.Host, err)
	}
	if resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden && resp.Header.Get("WWW-Authenticate") != "" {
		discardBody(resp)
		return nil, &NeedsAuthError{Status: resp.StatusCode, HadToken: r.Header.Get("Authorization") != ""}
	}
	return resp, nil
}

// A NeedsAuthError is the answer of a server that asks for a token.
type NeedsAuthError struct {
	Status   int  // of the HTTP response
	HadToken bool // the request had an Authorization header
}

// forAll reports whether other requests would be refused too: 403 may concern only
// this one.
func (e *NeedsAuthError) forAll() bool { return e.Status == http.StatusUnauthorized }

func (e *NeedsAuthError) Error() string {
	if e.HadToken {
		return fmt.Sprintf(`needs a token: the one in "Authorization" of the entry's headers is refused (HTTP %d; OAuth is not supported yet)`, e.Status)
	}
	return `needs a token: put "Authorization": "Bearer ${TOKEN}" into the entry's headers (OAuth is not supported yet)`
}

// A StatusError is an HTTP response that does not answer the request.
type StatusError struct {
	Status int
	Text   string // the beginning of its body
}

// NotHere reports whether the server of this url has another transport or era. "400
// Bad Request, 404 Not Found, or 405 Method Not Allowed" are how servers of one
// transport answer the other (2026-07-28, transports/streamable-http).
func (e *StatusError) NotHere() bool {
	return e.Status == 400 || e.Status == 404 || e.Status == 405
}

func newStatusError(resp *http.Response, body []byte) *StatusError {
	text := strings.Join(strings.Fields(strings.ToValidUTF8(string(body[:min(len(body), shown)]), "")), " ")
	return &StatusError{resp.StatusCode, text}
}

func (e *StatusError) Error() string {
	s := fmt.Sprintf("the server answered HTTP %d %s", e.Status, http.StatusText(e.Status))
	if e.Text != "" {
		s += ": " + e.Text
	}
	return s
}

func isEventStream(resp *http.Response) bool {
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return kind == eventStream
}

// readBody reads the whole of a response that may be long.
func readBody(resp *http.Response) ([]byte, error) {
	body, err := io.ReadAll(io.LimitReader(resp.Body, wire.MaxLine+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: the answer broke off: %w", session.ErrClosed, err)
	case len(body) > wire.MaxLine:
		return nil, wire.ErrTooLong
	}
	return body, nil
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
