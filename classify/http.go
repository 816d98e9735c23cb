package classify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/cenkalti/backoff/v5"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxAnswer bounds an answer, in bytes.
const maxAnswer = 4 << 20

// maxConnections bounds the calls at a time; others wait.
const maxConnections = 64

// An httpCaller calls an outside server at a URL. The first call tries the protocols one
// after another and remembers the one that works; a call that it fails for tries all
// again.
type httpCaller struct {
	url    string // without query and password, which may be secret
	client *http.Client

	closing sync.WaitGroup // of sessions that no longer work

	mu       sync.Mutex         // guards the fields below
	protocol int                // index in protocols of the last that worked, or -1
	session  *mcp.ClientSession // of streamable HTTP, or nil
	closed   bool               // no more sessions
}

// A protocol is a way to call a tool. Its call fails with errOtherProtocol if the server
// seems not to speak it.
type protocol struct {
	name string
	call func(c *httpCaller, ctx context.Context, tool string, arguments any) (json.RawMessage, error)
}

// protocols are plain JSON-RPC, then the method in the path and the bare result (which
// vLLM semantic router's own client uses), then MCP's streamable HTTP of either era.
var protocols = []protocol{
	{"plain JSON-RPC", (*httpCaller).callPlain},
	{"the method in the path", (*httpCaller).callREST},
	{"streamable HTTP", (*httpCaller).callStreamable},
}

var (
	errOtherProtocol = errors.New("it does not speak this protocol")
	errServerFailed  = errors.New("it failed")
)

func newHTTPCaller(address string, headers map[string]string) *httpCaller {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxConnsPerHost, transport.MaxIdleConnsPerHost = maxConnections, maxConnections
	public, secret := url.URL{}, &url.URL{}
	if u, err := url.Parse(address); err == nil {
		public, secret = url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}, u
	}
	return &httpCaller{url: public.String(), protocol: -1, client: &http.Client{
		Transport: secretTransport{transport, headers, secret},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if first := via[0].URL; r.URL.Scheme != first.Scheme || r.URL.Host != first.Host {
				return errors.New("it redirects to another origin, which must not get the headers")
			}
			if len(via) >= 10 {
				return errors.New("it redirects too often")
			}
			return nil
		},
	}}
}

// A secretTransport adds the secrets to requests. Errors of requests do not show them,
// since they are not in the request's own URL. It also bounds the answers.
type secretTransport struct {
	*http.Transport
	headers map[string]string
	secret  *url.URL // has the user, the password and the query
}

// RoundTrip implements [http.RoundTripper].
func (t secretTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	if r.URL.RawQuery == "" {
		r.URL.RawQuery = t.secret.RawQuery
	}
	if user := t.secret.User; user != nil {
		password, _ := user.Password()
		r.SetBasicAuth(user.Username(), password)
	}
	for name, value := range t.headers {
		r.Header.Set(name, value)
	}
	response, err := t.Transport.RoundTrip(r)
	if err == nil {
		response.Body = http.MaxBytesReader(nil, response.Body, maxAnswer)
	}
	return response, err
}

// call implements [caller].
func (c *httpCaller) call(ctx context.Context, tool string, arguments any) (json.RawMessage, error) {
	c.mu.Lock()
	known := c.protocol
	c.mu.Unlock()
	if known >= 0 {
		raw, err := protocols[known].call(c, ctx, tool, arguments)
		if !errors.Is(err, errOtherProtocol) {
			return raw, err
		}
	}
	var reasons []string
	failed := false
	for i, p := range protocols {
		raw, err := p.call(c, ctx, tool, arguments)
		if err == nil {
			c.mu.Lock()
			c.protocol = i
			c.mu.Unlock()
			return raw, nil
		}
		_, answered := errors.AsType[*answerError](err)
		switch {
		case errors.Is(err, errServerFailed):
			failed = true
		case !answered && !errors.Is(err, errOtherProtocol):
			return nil, err // no protocol can reach it
		}
		reasons = append(reasons, fmt.Sprintf("%s: %.100s", p.name, err))
	}
	if failed {
		return nil, errors.New(strings.Join(reasons, "; "))
	}
	return nil, badAnswer(`is "url" right? It often ends in /mcp: %s`, strings.Join(reasons, "; "))
}

func (c *httpCaller) callPlain(ctx context.Context, tool string, arguments any) (json.RawMessage, error) {
	body, err := json.Marshal(struct {
		JSONRPC string   `json:"jsonrpc"`
		ID      int      `json:"id"`
		Method  string   `json:"method"`
		Params  toolCall `json:"params"`
	}{"2.0", 1, "tools/call", toolCall{tool, arguments}})
	if err != nil {
		return nil, err
	}
	raw, err := c.post(ctx, c.url, body)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Result json.RawMessage `json:"result"`
		Error  *struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	switch err := json.Unmarshal(raw, &answer); {
	case err != nil || answer.Result == nil && answer.Error == nil:
		return nil, fmt.Errorf("%w: the answer is not JSON-RPC", errOtherProtocol)
	case answer.Result == nil:
		return nil, badAnswer("it says: %.200s (code %d)", answer.Error.Message, answer.Error.Code)
	}
	return answer.Result, nil
}

func (c *httpCaller) callREST(ctx context.Context, tool string, arguments any) (json.RawMessage, error) {
	params, err := json.Marshal(toolCall{tool, arguments})
	if err != nil {
		return nil, err
	}
	raw, err := c.post(ctx, strings.TrimSuffix(c.url, "/")+"/tools/call", params)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Content json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil || answer.Content == nil {
		return nil, fmt.Errorf("%w: the answer is no tool result", errOtherProtocol)
	}
	return raw, nil
}

// post returns the JSON that the server answers with.
func (c *httpCaller) post(ctx context.Context, address string, body []byte) (json.RawMessage, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	response, err := c.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if _, long := errors.AsType[*http.MaxBytesError](err); long {
		return nil, badAnswer("the answer is longer than %d bytes", maxAnswer)
	}
	if err != nil {
		return nil, err
	}
	switch code := response.StatusCode; {
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return nil, backoff.Permanent(fmt.Errorf("HTTP %s: does it want a token? \"headers\" can be set", response.Status))
	case code == http.StatusTooManyRequests:
		return nil, backoff.Permanent(fmt.Errorf("HTTP %s", response.Status))
	case code == http.StatusRequestTimeout || code >= 500:
		return nil, fmt.Errorf("%w: HTTP %s", errServerFailed, response.Status)
	case code != http.StatusOK:
		return nil, fmt.Errorf("%w: HTTP %s", errOtherProtocol, response.Status)
	case !json.Valid(answer): // the content type is not checked: simple servers do not set it
		return nil, fmt.Errorf("%w: the answer is not JSON (%s)", errOtherProtocol, response.Header.Get("Content-Type"))
	}
	return answer, nil
}

// callStreamable calls the tool with the SDK's client.
func (c *httpCaller) callStreamable(ctx context.Context, tool string, arguments any) (json.RawMessage, error) {
	s, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	result, err := s.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: arguments})
	refused, ok := errors.AsType[*jsonrpc.Error](err)
	switch {
	case err == nil:
		return json.Marshal(result)
	case ok && refused.Code >= -32700 && refused.Code <= -32600 && !errors.Is(err, errRejected):
		return nil, badAnswer("%v", refused)
	case ctx.Err() == nil:
		c.drop(s)
	}
	return nil, err
}

// errRejected is in the SDK's errors if the transport rejected the message, for example
// because the session is lost.
var errRejected = &jsonrpc.Error{Code: -32005}

var errClosed = errors.New("the router is stopping")

// connect returns the session, and opens one if there is no session.
func (c *httpCaller) connect(ctx context.Context) (*mcp.ClientSession, error) {
	c.mu.Lock()
	s, closed := c.session, c.closed
	c.mu.Unlock()
	switch {
	case s != nil:
		return s, nil
	case closed:
		return nil, errClosed
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "metarouter", Version: "1"}, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
	s, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: c.url, HTTPClient: c.client, MaxRetries: -1, DisableStandaloneSSE: true}, nil)
	if err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %w", errOtherProtocol, err)
	}
	c.mu.Lock()
	now, closed := c.session, c.closed
	switch {
	case closed:
	case now == nil:
		c.session, now = s, s
	default: // another call opened one at the same time
		c.closing.Go(func() { s.Close() })
	}
	c.mu.Unlock()
	if closed {
		s.Close()
		return nil, errClosed
	}
	return now, nil
}

// drop closes a session that no longer works, in the background.
func (c *httpCaller) drop(s *mcp.ClientSession) {
	c.mu.Lock()
	current := c.session == s
	if current {
		c.session = nil
	}
	c.mu.Unlock()
	if current {
		c.closing.Go(func() { s.Close() })
	}
}

// close implements [caller].
func (c *httpCaller) close() {
	c.mu.Lock()
	s := c.session
	c.closed = true
	c.mu.Unlock()
	if s != nil {
		c.drop(s)
	}
	c.closing.Wait()
	c.client.CloseIdleConnections()
}
