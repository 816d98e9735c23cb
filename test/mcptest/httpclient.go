package mcptest

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/internal/protocol"
)

// HTTPClient is a plain MCP client of one server over streamable HTTP. Initialize makes it a
// client of the legacy era, Discover of the modern one. It may be used by several goroutines
// at once.
type HTTPClient struct {
	URL string
	// Header is sent with each request. Set it before the first one.
	Header http.Header
	// Notifications has the notifications of all streams in the order in which they came.
	// A notification is lost if 65,536 are unread.
	Notifications <-chan Notification

	http          *http.Client
	notifications chan<- Notification

	mu        sync.Mutex // guards the fields below
	next      int
	session   string
	version   string // MCP-Protocol-Version
	declared  json.RawMessage
	onRequest OnRequest
}

// StatusError is an HTTP response that has no message and not the expected status.
type StatusError struct {
	Status int
	Header http.Header
	Body   string
}

func (e *StatusError) Error() string { return fmt.Sprintf("HTTP status %d: %.500s", e.Status, e.Body) }

// NewHTTPClient returns a client with its own connections, which end with the test.
func NewHTTPClient(t testing.TB, url string) *HTTPClient {
	notifications := make(chan Notification, 1<<16)
	c := &HTTPClient{
		URL: url, Header: http.Header{}, Notifications: notifications,
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}, notifications: notifications,
	}
	t.Cleanup(c.Close)
	return c
}

// Close closes the idle connections. The session remains.
func (c *HTTPClient) Close() { c.http.CloseIdleConnections() }

// Initialize does the legacy handshake and returns the result of initialize.
func (c *HTTPClient) Initialize(ctx context.Context) (json.RawMessage, error) {
	c.mu.Lock()
	declared := c.declared
	c.mu.Unlock()
	result, err := c.Request(ctx, "initialize", initializeParams(declared))
	if err != nil {
		return nil, err
	}
	var agreed struct{ ProtocolVersion string }
	json.Unmarshal(result, &agreed)
	c.mu.Lock()
	c.version = agreed.ProtocolVersion
	c.mu.Unlock()
	return result, c.Notify("notifications/initialized", nil)
}

// Discover makes this a modern client: it asks server/discover. Every later request has the
// modern era's _meta and headers.
func (c *HTTPClient) Discover(ctx context.Context) (json.RawMessage, error) {
	c.mu.Lock()
	c.version = protocol.Modern
	c.mu.Unlock()
	return c.Request(ctx, "server/discover", nil)
}

// Declare sets the capabilities of the client, as [Client.Declare] does.
func (c *HTTPClient) Declare(capabilities string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.declared = json.RawMessage(capabilities)
}

// OnRequest sets the function that answers the server's requests, as [Client.OnRequest] does.
func (c *HTTPClient) OnRequest(f OnRequest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onRequest = f
}

// Session returns the Mcp-Session-Id, "" without a session.
func (c *HTTPClient) Session() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session
}

// Call requests tools/call.
func (c *HTTPClient) Call(ctx context.Context, tool string, arguments any) (json.RawMessage, error) {
	return c.Request(ctx, "tools/call", callParams(tool, arguments))
}

// Request sends a request and waits for its result. The error is an [*Error] if the server
// answers with one, a [*StatusError] if the response has no message, [ErrEnded] if the stream
// ends without an answer, and the context's error if the context ends first; then the stream
// is closed and, in the legacy era, the request is cancelled.
func (c *HTTPClient) Request(ctx context.Context, method string, params any) (json.RawMessage, error) {
	x, err := c.Exchange(ctx, method, params)
	return x.Result, err
}

// Exchange does the same as Request and returns the notifications before the answer on its
// stream too.
func (c *HTTPClient) Exchange(ctx context.Context, method string, params any) (*Exchange, error) {
	raw := marshal(params)
	c.mu.Lock()
	c.next++
	x := &Exchange{ID: strconv.Itoa(c.next)}
	isModern := c.version >= protocol.Modern
	if isModern {
		raw = withModernMeta(raw, c.declared)
	}
	c.mu.Unlock()
	resp, err := c.Do(ctx, http.MethodPost, StandardHeaders(method, raw), message(x.ID, method, raw))
	if err == nil {
		defer resp.Body.Close()
		err = c.answer(x, resp)
	}
	if ctx.Err() != nil {
		err = ctx.Err()
		if !isModern {
			c.Notify("notifications/cancelled", json.RawMessage(`{"requestId":`+x.ID+`}`))
		}
	}
	return x, err
}

// errAnswered says that a stream had the answer.
var errAnswered = errors.New("answered")

// answer reads the response to a request up to the answer.
func (c *HTTPClient) answer(x *Exchange, resp *http.Response) error {
	if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
		c.mu.Lock()
		c.session = id
		c.mu.Unlock()
	}
	var err error
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		err = Events(resp.Body, func(e Event) error { return c.receive(x, []byte(e.Data), resp.StatusCode) })
	} else {
		var body []byte
		if body, err = io.ReadAll(resp.Body); err != nil {
			return err
		}
		var m protocol.Message
		if json.Unmarshal(body, &m) != nil || string(m.ID) != x.ID || m.Result == nil && m.Error == nil {
			return &StatusError{resp.StatusCode, resp.Header, string(body)}
		}
		err = c.receive(x, body, resp.StatusCode)
	}
	switch {
	case errors.Is(err, errAnswered):
		return nil
	case err == nil:
		return ErrEnded
	}
	return err
}

// receive handles a message that belongs to the exchange, or to the GET stream if x is nil.
func (c *HTTPClient) receive(x *Exchange, data []byte, status int) error {
	if len(data) == 0 {
		return nil // an event that only has an id
	}
	var m protocol.Message
	if err := json.Unmarshal(data, &m); err != nil {
		return fmt.Errorf("decode %s: %w", data, err)
	}
	switch {
	case m.Method != "" && m.ID == nil:
		n := Notification{m.Method, m.Params}
		if x != nil {
			x.Before = append(x.Before, n)
		}
		select {
		case c.notifications <- n:
		default:
		}
		return nil
	case m.Method != "":
		c.mu.Lock()
		f := c.onRequest
		c.mu.Unlock()
		go func() { discard(c.Do(context.Background(), http.MethodPost, nil, response(m, f))) }()
		return nil
	case x == nil || string(m.ID) != x.ID:
		return fmt.Errorf("a response to no request of this stream: %s %s%s", m.ID, m.Result, m.Error)
	case m.Error != nil:
		return newError(m.Error, status)
	}
	x.Result = m.Result
	return errAnswered
}

// Notify sends a notification.
func (c *HTTPClient) Notify(method string, params any) error {
	return discard(c.Do(context.Background(), http.MethodPost, StandardHeaders(method, nil), message("", method, marshal(params))))
}

// Delete ends the session.
func (c *HTTPClient) Delete(ctx context.Context) error {
	return discard(c.Do(ctx, http.MethodDelete, nil, ""))
}

// Open opens the GET stream and returns when it is open. Notifications has its notifications,
// and its requests are answered. ended is closed when the server or the context has ended the
// stream.
func (c *HTTPClient) Open(ctx context.Context) (ended <-chan struct{}, _ error) {
	resp, err := c.Do(ctx, http.MethodGet, http.Header{"Accept": {"text/event-stream"}}, "")
	if err == nil && resp.StatusCode != http.StatusOK {
		err = discard(resp, nil)
	}
	if err != nil {
		return nil, err
	}
	end := make(chan struct{})
	go func() {
		defer close(end)
		defer resp.Body.Close()
		Events(resp.Body, func(e Event) error { return c.receive(nil, []byte(e.Data), resp.StatusCode) })
	}()
	return end, nil
}

// Do sends a request with this client's headers; the headers in header replace them. The
// caller closes the response's body.
func (c *HTTPClient) Do(ctx context.Context, method string, header http.Header, body string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, method, c.URL, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	c.mu.Lock()
	session, version := c.session, c.version
	c.mu.Unlock()
	if session != "" {
		r.Header.Set("Mcp-Session-Id", session)
	}
	if version != "" {
		r.Header.Set("MCP-Protocol-Version", version)
	}
	for _, more := range []http.Header{c.Header, header} {
		for name, values := range more {
			r.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	return c.http.Do(r)
}

// discard reads a response to its end. A status of 300 or more is an error.
func discard(resp *http.Response, err error) error {
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode >= 300 {
		return &StatusError{resp.StatusCode, resp.Header, string(body)}
	}
	return nil
}

// StandardHeaders returns the headers Mcp-Method and Mcp-Name of the modern era. A legacy
// server ignores them.
func StandardHeaders(method string, params json.RawMessage) http.Header {
	h := http.Header{"Mcp-Method": {method}}
	var p struct{ Name, URI string }
	json.Unmarshal(params, &p)
	switch method {
	case "tools/call", "prompts/get":
		h.Set("Mcp-Name", encodeHeader(p.Name))
	case "resources/read":
		h.Set("Mcp-Name", encodeHeader(p.URI))
	}
	return h
}

// encodeHeader encodes a value in the Base64 form if a header cannot hold it.
func encodeHeader(value string) string {
	unsafe := func(r rune) bool { return r < ' ' || r > '~' }
	if strings.ContainsFunc(value, unsafe) || strings.TrimSpace(value) != value || strings.HasPrefix(value, "=?base64?") {
		return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(value)) + "?="
	}
	return value
}
