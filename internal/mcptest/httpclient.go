package mcptest

import (
	"bufio"
	"bytes"
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
)

// HTTPClient is a plain MCP client of one server over streamable HTTP, in the
// legacy era once Initialize and in the modern one once Discover was called. It
// hands out the server's bytes, as Client does, and may be used from several
// goroutines.
type HTTPClient struct {
	URL string
	// Header is sent with each request. It is for before the first one.
	Header http.Header
	// Notifications has the notifications of all streams in the order in which
	// they came. Those that find it full (65,536 unread) are lost.
	Notifications <-chan Notification

	http          *http.Client
	notifications chan<- Notification

	mu        sync.Mutex // guards what follows
	next      int
	session   string
	version   string // MCP-Protocol-Version
	declared  json.RawMessage
	onRequest func(method string, params json.RawMessage) (json.RawMessage, *Error)
}

// StatusError is an HTTP response that is neither a message nor acceptable.
type StatusError struct {
	Status int
	Header http.Header
	Body   string
}

func (e *StatusError) Error() string { return fmt.Sprintf("HTTP status %d: %.500s", e.Status, e.Body) }

// NewHTTPClient makes a client of its own connections, which end with the test.
func NewHTTPClient(t testing.TB, url string) *HTTPClient {
	notifications := make(chan Notification, 1<<16)
	c := &HTTPClient{
		URL: url, Header: http.Header{}, Notifications: notifications,
		http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}}, notifications: notifications,
	}
	t.Cleanup(c.Close)
	return c
}

// Close closes the connections that are not in use. The session remains.
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

// Discover makes this a modern client: it asks server/discover, and from then on
// every request bears the modern era's _meta and headers.
func (c *HTTPClient) Discover(ctx context.Context) (json.RawMessage, error) {
	c.mu.Lock()
	c.version = modern
	c.mu.Unlock()
	return c.Request(ctx, "server/discover", nil)
}

// Declare is Client.Declare.
func (c *HTTPClient) Declare(capabilities string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.declared = json.RawMessage(capabilities)
}

// OnRequest is Client.OnRequest.
func (c *HTTPClient) OnRequest(f func(method string, params json.RawMessage) (result json.RawMessage, _ *Error)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onRequest = f
}

// Session is the Mcp-Session-Id, empty if there is none.
func (c *HTTPClient) Session() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.session
}

// Call asks for tools/call.
func (c *HTTPClient) Call(ctx context.Context, tool string, arguments any) (json.RawMessage, error) {
	return c.Request(ctx, "tools/call", callParams(tool, arguments))
}

// Request sends a request and waits for its result: a *Error if the server says
// so, a *StatusError if it answers with another status and no message, ErrEnded
// if the stream ends without an answer, the context's error if that ends first:
// then the stream is closed, and in the legacy era the server is told.
func (c *HTTPClient) Request(ctx context.Context, method string, params any) (json.RawMessage, error) {
	x, err := c.Exchange(ctx, method, params)
	return x.Result, err
}

// Exchange is Request, with what came before the answer on the same stream.
func (c *HTTPClient) Exchange(ctx context.Context, method string, params any) (*Exchange, error) {
	c.mu.Lock()
	c.next++
	x := &Exchange{ID: strconv.Itoa(c.next)}
	raw := marshal(params)
	isModern := c.version >= modern
	if isModern {
		raw = withModernMeta(raw, c.declared)
	}
	c.mu.Unlock()
	body := `{"jsonrpc":"2.0","id":` + x.ID + `,"method":` + string(encode(method))
	if raw != nil {
		body += `,"params":` + string(raw)
	}
	err := c.exchange(ctx, x, method, raw, body+"}")
	if ctx.Err() != nil {
		err = ctx.Err()
		if !isModern {
			c.Notify("notifications/cancelled", json.RawMessage(`{"requestId":`+x.ID+`}`))
		}
	}
	return x, err
}

func (c *HTTPClient) exchange(ctx context.Context, x *Exchange, method string, params json.RawMessage, body string) error {
	resp, err := c.Post(ctx, StandardHeaders(method, params), body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
		c.mu.Lock()
		c.session = id
		c.mu.Unlock()
	}
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return c.fromJSON(x, resp)
	}
	err = Events(resp.Body, func(e Event) error { return c.receive(x, []byte(e.Data), resp.StatusCode) })
	switch {
	case errors.Is(err, errAnswered):
		return nil
	case err == nil:
		return ErrEnded
	}
	return err
}

// errAnswered ends the reading of a stream.
var errAnswered = errors.New("answered")

func (c *HTTPClient) fromJSON(x *Exchange, resp *http.Response) error {
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	var m message
	if json.Unmarshal(body, &m) != nil || string(m.ID) != x.ID || m.Result == nil && m.Error == nil {
		return &StatusError{resp.StatusCode, resp.Header, string(body)}
	}
	if err := c.take(x, m, resp.StatusCode); !errors.Is(err, errAnswered) {
		return err
	}
	return nil
}

// receive handles a message of a stream: that of x, or the GET stream if x is nil.
func (c *HTTPClient) receive(x *Exchange, data []byte, status int) error {
	if len(data) == 0 {
		return nil // an event that only bears an id
	}
	var m message
	if err := json.Unmarshal(data, &m); err != nil {
		return fmt.Errorf("decode %s: %w", data, err)
	}
	return c.take(x, m, status)
}

// take is receive of what has been decoded.
func (c *HTTPClient) take(x *Exchange, m message, status int) error {
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
		go c.reply(m)
		return nil
	case x == nil || string(m.ID) != x.ID:
		return fmt.Errorf("a response that belongs to no request of the stream: %s %s%s", m.ID, m.Result, m.Error)
	case m.Error != nil:
		return newClientError(m.Error, status)
	}
	x.Result = m.Result
	return errAnswered
}

func (c *HTTPClient) reply(m message) {
	c.mu.Lock()
	f := c.onRequest
	c.mu.Unlock()
	c.discard(c.Post(context.Background(), nil, response(m, f)))
}

// Notify sends a notification.
func (c *HTTPClient) Notify(method string, params any) error {
	body := `{"jsonrpc":"2.0","method":` + string(encode(method))
	if raw := marshal(params); raw != nil {
		body += `,"params":` + string(raw)
	}
	return c.discard(c.Post(context.Background(), StandardHeaders(method, nil), body+"}"))
}

// Delete ends the session.
func (c *HTTPClient) Delete(ctx context.Context) error {
	return c.discard(c.do(ctx, http.MethodDelete, nil, ""))
}

// Open opens the GET stream, whose notifications go to Notifications and whose
// requests are answered. It returns when the stream is open; ended is closed when
// it has ended, by the server or with the context.
func (c *HTTPClient) Open(ctx context.Context) (ended <-chan struct{}, _ error) {
	resp, err := c.do(ctx, http.MethodGet, http.Header{"Accept": {"text/event-stream"}}, "")
	if err == nil && resp.StatusCode != http.StatusOK {
		err = c.discard(resp, nil)
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

// discard reads a response to its end. It is an error if its status is.
func (c *HTTPClient) discard(resp *http.Response, err error) error {
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

// Post sends any body with this client's headers, over which those given win. The
// caller closes the response's body.
func (c *HTTPClient) Post(ctx context.Context, header http.Header, body string) (*http.Response, error) {
	return c.do(ctx, http.MethodPost, header, body)
}

func (c *HTTPClient) do(ctx context.Context, method string, header http.Header, body string) (*http.Response, error) {
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

// StandardHeaders are Mcp-Method and Mcp-Name, as the modern era has them; a
// legacy server ignores them.
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

// encodeHeader puts what a header can't hold into the Base64 form.
func encodeHeader(value string) string {
	unsafe := func(r rune) bool { return r < ' ' || r > '~' }
	if strings.ContainsFunc(value, unsafe) || strings.TrimSpace(value) != value || strings.HasPrefix(value, "=?base64?") {
		return "=?base64?" + base64.StdEncoding.EncodeToString([]byte(value)) + "?="
	}
	return value
}

// Event is an event of an SSE stream.
type Event struct{ ID, Name, Data string }

// Events reads a stream to its end, or until f returns an error, which it
// returns.
func Events(stream io.Reader, f func(Event) error) error {
	r := bufio.NewReader(stream)
	var e Event
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		field, value, _ := bytes.Cut(bytes.TrimRight(line, "\r\n"), []byte(":"))
		text := strings.TrimPrefix(string(value), " ")
		switch string(field) {
		case "id":
			e.ID = text
		case "event":
			e.Name = text
		case "data":
			if e.Data != "" {
				e.Data += "\n"
			}
			e.Data += text
		case "":
			if len(value) > 0 {
				continue // a comment
			}
			if e != (Event{}) {
				if err := f(e); err != nil {
					return err
				}
			}
			e = Event{}
		}
	}
}
