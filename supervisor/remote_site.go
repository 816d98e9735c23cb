package supervisor

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

	"github.com/mcp-metarouter/metarouter/config"
	"github.com/mcp-metarouter/metarouter/internal/wire"
	"github.com/mcp-metarouter/metarouter/session"
)

const (
	dialTimeout = 10 * time.Second
	// maxRefusal bounds what is read of an answer that says no.
	maxRefusal = 1 << 20
	// shown is how much of such an answer is put into an error, in bytes.
	shown = 200

	eventStream = "text/event-stream"
)

// A site is where a remote server is and how it is asked, with connections of
// its own.
type site struct {
	url     *url.URL
	headers map[string]string
	agent   string
	client  *http.Client
}

func newSite(entry config.Server, version string) (*site, error) {
	u, err := url.Parse(entry.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, errors.New("its url is no http or https url") // and may hold a secret
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.DialContext = (&net.Dialer{Timeout: dialTimeout, KeepAlive: 30 * time.Second}).DialContext
	t.TLSHandshakeTimeout = dialTimeout
	t.MaxIdleConns, t.MaxIdleConnsPerHost = 8, 8
	return &site{
		url:     u,
		headers: entry.Headers,
		agent:   "metarouter/" + version,
		client:  &http.Client{Transport: t, CheckRedirect: checkRedirect},
	}, nil
}

func (s *site) close() { s.client.CloseIdleConnections() }

// A redirectError is a redirect that is not followed.
type redirectError struct{ why string }

func (e *redirectError) Error() string { return e.why }

// checkRedirect lets only redirects be followed that stay with the server: the
// entry's headers hold secrets.
func checkRedirect(next *http.Request, via []*http.Request) error {
	first := via[0]
	to := (&url.URL{Scheme: next.URL.Scheme, Host: next.URL.Host, Path: next.URL.Path}).String()
	switch {
	case !sameOrigin(first.URL, next.URL):
		return &redirectError{"it redirects to " + to + ", where the entry's headers are not sent; if that is right, put this url into the entry"}
	case first.Method != next.Method:
		return &redirectError{"it redirects to " + to + " in a way that turns a POST into a GET; put this url into the entry"}
	case len(via) >= 5:
		return &redirectError{"it redirects again and again"}
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
func (s *site) request(ctx context.Context, method, to, accept string, body []byte) (*http.Request, error) {
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
// [*needsAuthError] or a [*redirectError].
func (s *site) do(r *http.Request) (*http.Response, error) {
	var sent atomic.Bool
	ctx := httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }})
	resp, err := s.client.Do(r.WithContext(ctx))
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err // without the url, which may hold a secret
	}
	if err != nil {
		if e, ok := errors.AsType[*redirectError](err); ok {
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
		return nil, &needsAuthError{status: resp.StatusCode, had: r.Header.Get("Authorization") != ""}
	}
	return resp, nil
}

// A needsAuthError is the answer of a server that wants to know who asks.
type needsAuthError struct {
	status int
	had    bool // an Authorization header
}

// forAll reports whether other requests would be refused too: 403 may be about
// what was asked.
func (e *needsAuthError) forAll() bool { return e.status == http.StatusUnauthorized }

func (e *needsAuthError) Error() string {
	if e.had {
		return fmt.Sprintf(`needs a token: the one in "Authorization" of the entry's headers is refused (HTTP %d; OAuth is not supported yet)`, e.status)
	}
	return `needs a token: put "Authorization": "Bearer ${TOKEN}" into the entry's headers (OAuth is not supported yet)`
}

// A statusError is an HTTP response that is no answer to what was asked.
type statusError struct {
	status int
	text   string // how its body begins
}

func newStatusError(resp *http.Response, body []byte) *statusError {
	text := strings.Join(strings.Fields(strings.ToValidUTF8(string(body[:min(len(body), shown)]), "")), " ")
	return &statusError{resp.StatusCode, text}
}

func (e *statusError) Error() string {
	s := fmt.Sprintf("the server answered HTTP %d %s", e.status, http.StatusText(e.status))
	if e.text != "" {
		s += ": " + e.text
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
		return nil, errTooLong
	}
	return body, nil
}

// readRefusal reads a response that says no. A JSON-RPC error in it is m.
func readRefusal(resp *http.Response) (body []byte, m wire.Message, code int64) {
	body, _ = io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	resp.Body.Close()
	m, err := wire.Parse(bytes.TrimSpace(body))
	if err != nil || m.Error == nil {
		return body, wire.Message{}, 0
	}
	e, _ := errors.AsType[*session.Error](replyError(m))
	return body, m, e.Code
}

// replyError returns the error that a message holds.
func replyError(m wire.Message) error {
	_, err := reply{message: m}.result()
	return err
}

func discardBody(resp *http.Response) {
	io.Copy(io.Discard, io.LimitReader(resp.Body, maxRefusal))
	resp.Body.Close()
}
