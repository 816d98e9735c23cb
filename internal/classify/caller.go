package classify

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"

	"github.com/cenkalti/backoff/v5"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/wire"
)

// A caller calls a tool of the outside server. An error that is not an [*answerError] means that
// the server could not be reached.
type caller interface {
	call(ctx context.Context, tool string, arguments any) (*mcp.CallToolResult, error)
	close()
}

// A sessionCaller calls an entry of the configuration, on the session that the router keeps with it.
type sessionCaller struct {
	server, listTool string
	servers          Sessions

	mu     sync.Mutex      // guards listed
	listed session.Session // the session of the list that was read last
}

// errRestarted says that the server's answer may refer to a list that was not read.
var errRestarted = errors.New("it was restarted, and its list was not read yet")

// call implements [caller].
func (c *sessionCaller) call(ctx context.Context, tool string, arguments any) (*mcp.CallToolResult, error) {
	s, err := c.servers.Session(ctx, c.server, nil)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	if tool == c.listTool {
		c.listed = s
	}
	restarted := c.listed != s
	c.mu.Unlock()
	if restarted {
		return nil, backoff.Permanent(errRestarted)
	}
	raw, err := s.Call(ctx, session.Request{Method: "tools/call", Params: wire.Marshal(map[string]any{"name": tool, "arguments": arguments})})
	if refused, ok := errors.AsType[*session.Error](err); ok {
		return nil, badAnswer("%v", refused)
	}
	if err != nil {
		return nil, err
	}
	var result mcp.CallToolResult
	if err := json.Unmarshal(raw, &result); err != nil {
		return nil, badAnswer("the answer is no tool result: %v", err)
	}
	return &result, nil
}

// close implements [caller]. The session belongs to the router.
func (*sessionCaller) close() {}

const (
	maxAnswer      = 4 << 20 // bytes
	maxConnections = 64      // calls at a time; others wait
)

// An httpCaller calls a server at a URL, on one session at a time.
type httpCaller struct {
	transport mcp.StreamableClientTransport
	turn      chan struct{} // has a token unless a call opens a session; closed by close
	session   atomic.Pointer[mcp.ClientSession]
	closing   sync.WaitGroup // of sessions that no longer work
}

// newHTTPCaller returns the caller, and the URL without query and password, which may be secret.
func newHTTPCaller(address string, headers map[string]string) (c *httpCaller, public string) {
	u, err := url.Parse(address)
	if err != nil {
		u = new(url.URL)
	}
	public = (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}).String()
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxConnsPerHost, transport.MaxIdleConnsPerHost = maxConnections, maxConnections
	client := &http.Client{Transport: simpleServer{transport, headers, u}, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if first := via[0].URL; r.URL.Scheme != first.Scheme || r.URL.Host != first.Host {
			return errors.New("it redirects to another origin, which must not get the headers")
		}
		if len(via) >= 10 {
			return errors.New("it redirects too often")
		}
		return nil
	}}
	c = &httpCaller{turn: make(chan struct{}, 1), transport: mcp.StreamableClientTransport{Endpoint: public, HTTPClient: client, MaxRetries: -1, DisableStandaloneSSE: true}}
	c.turn <- struct{}{}
	return c, public
}

// call implements [caller].
func (c *httpCaller) call(ctx context.Context, tool string, arguments any) (*mcp.CallToolResult, error) {
	s, err := c.connect(ctx)
	if err != nil {
		return nil, err
	}
	result, err := s.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: arguments})
	refused, ok := errors.AsType[*jsonrpc.Error](err)
	switch {
	case err == nil:
		return result, nil
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

// connect returns the session, and opens one if there is no session.
func (c *httpCaller) connect(ctx context.Context) (*mcp.ClientSession, error) {
	if s := c.session.Load(); s != nil {
		return s, nil
	}
	select {
	case _, open := <-c.turn:
		if !open {
			return nil, errors.New("the router is stopping")
		}
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { c.turn <- struct{}{} }()
	if s := c.session.Load(); s != nil {
		return s, nil
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "metarouter", Version: "1"}, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
	s, err := client.Connect(ctx, &c.transport, nil)
	if err != nil {
		return nil, err
	}
	c.session.Store(s)
	return s, nil
}

// drop closes a session that no longer works, in the background.
func (c *httpCaller) drop(s *mcp.ClientSession) {
	if s != nil && c.session.CompareAndSwap(s, nil) {
		c.closing.Go(func() { s.Close() })
	}
}

// close implements [caller].
func (c *httpCaller) close() {
	<-c.turn
	close(c.turn)
	c.drop(c.session.Load())
	c.closing.Wait()
	c.transport.HTTPClient.CloseIdleConnections()
}

// A simpleServer is a transport to a server that may know plain JSON-RPC and tools/call only. It
// bounds responses, and adds the secrets to requests, so that errors of requests do not show them.
type simpleServer struct {
	*http.Transport
	headers map[string]string
	secret  *url.URL // has the user, the password and the query
}

// RoundTrip implements [http.RoundTripper].
func (t simpleServer) RoundTrip(r *http.Request) (*http.Response, error) {
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
	if err != nil {
		return nil, err
	}
	response.Body = http.MaxBytesReader(nil, response.Body, maxAnswer)
	switch kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type")); {
	case response.StatusCode == http.StatusUnauthorized || response.StatusCode == http.StatusForbidden:
		err = backoff.Permanent(fmt.Errorf("HTTP %s: does it want a token? \"headers\" can be set", response.Status))
	case response.StatusCode == http.StatusTooManyRequests:
		err = backoff.Permanent(fmt.Errorf("HTTP %s", response.Status))
	case response.StatusCode == http.StatusRequestTimeout || response.StatusCode >= 500:
		err = fmt.Errorf("HTTP %s", response.Status)
	case r.Method == http.MethodPost && response.StatusCode/100 != 3 && (kind != "text/event-stream" || response.StatusCode != http.StatusOK):
		err = complete(r, response)
	}
	if err != nil {
		response.Body.Close()
		return nil, err
	}
	return response, nil
}

// complete reads a response, and adds the members that the SDK needs and simple servers leave out.
func complete(r *http.Request, response *http.Response) error {
	answer, err := io.ReadAll(response.Body)
	response.Body.Close()
	if _, long := errors.AsType[*http.MaxBytesError](err); long {
		return badAnswer("the answer is longer than %d bytes", maxAnswer)
	}
	if err != nil {
		return err
	}
	body, err := r.GetBody()
	if err != nil {
		return err
	}
	defer body.Close()
	request, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	id, inSession := wire.Member(request, "id"), r.Header.Get("Mcp-Session-Id") != ""
	switch initialize := string(wire.Member(request, "method")) == `"initialize"`; {
	case id == nil: // a notification needs no answer
		response.StatusCode, answer = http.StatusAccepted, nil
	case response.StatusCode/100 != 2 && wire.Member(answer, "error") == nil:
		if !inSession { // otherwise it may be lost
			return fmt.Errorf(`HTTP %s: is "url" right? It often ends in /mcp`, response.Status)
		}
	case !json.Valid(answer) || wire.Member(answer, "result") == nil && wire.Member(answer, "error") == nil:
		return fmt.Errorf("the answer is not JSON-RPC (%s)", response.Header.Get("Content-Type"))
	case initialize && wire.Member(wire.Member(answer, "result"), "protocolVersion") == nil:
		response.StatusCode, answer = http.StatusOK, []byte(`{"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"","version":""}}}`)
		fallthrough
	default:
		response.Header.Set("Content-Type", "application/json")
		for key, value := range map[string][]byte{"jsonrpc": []byte(`"2.0"`), "id": id} {
			if wire.Member(answer, key) == nil {
				answer = wire.AddMember(answer, key, value)
			}
		}
	}
	response.Body = io.NopCloser(bytes.NewReader(answer))
	return nil
}
