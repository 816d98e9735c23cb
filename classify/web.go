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

// maxAnswer is how much of an answer is read, in bytes.
const maxAnswer = 4 << 20

// A web is an outside server at a URL. It may speak plain JSON-RPC, which is tried
// first, the method in the path and the bare result (as vLLM semantic router's own
// client has it), or MCP's streamable HTTP of either era. Which of them is found out
// by the first call, and again when one no longer works.
type web struct {
	url    string // without what may be secret
	client *http.Client

	closing sync.WaitGroup // of sessions that are given up

	mu      sync.Mutex         // guards what follows
	style   int                // of styles, that worked last; -1 if none has
	session *mcp.ClientSession // of streamable HTTP; nil if there is none
	closed  bool               // no more sessions
}

// A style is a way to call a tool. It fails with errOtherStyle if the server seems
// not to speak so.
type style struct {
	name string
	call func(w *web, ctx context.Context, tool string, arguments any) (json.RawMessage, error)
}

var styles = []style{{"plain JSON-RPC", (*web).plain}, {"the method in the path", (*web).rest}, {"streamable HTTP", (*web).streamable}}

var (
	errOtherStyle = errors.New("it does not speak so")
	errStatus     = errors.New("it has failed")
)

// maxConnections is how many calls are made at once; others wait.
const maxConnections = 64

func newWeb(at string, headers map[string]string) *web {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxConnsPerHost, transport.MaxIdleConnsPerHost = maxConnections, maxConnections
	public, secret := url.URL{}, &url.URL{}
	if u, err := url.Parse(at); err == nil {
		public, secret = url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}, u
	}
	return &web{url: public.String(), style: -1, client: &http.Client{
		Transport: careful{transport, headers, secret},
		CheckRedirect: func(r *http.Request, via []*http.Request) error {
			if first := via[0].URL; r.URL.Scheme != first.Scheme || r.URL.Host != first.Host {
				return errors.New("it redirects to another origin, which is not to see the headers")
			}
			if len(via) >= 10 {
				return errors.New("it redirects too often")
			}
			return nil
		},
	}}
}

// A careful transport adds to requests what is secret, which errors don't tell then,
// and lets nobody answer without end.
type careful struct {
	*http.Transport
	headers map[string]string
	secret  *url.URL // its user and query
}

func (t careful) RoundTrip(r *http.Request) (*http.Response, error) {
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

func (w *web) call(ctx context.Context, tool string, arguments any) (json.RawMessage, error) {
	w.mu.Lock()
	known := w.style
	w.mu.Unlock()
	if known >= 0 {
		raw, err := styles[known].call(w, ctx, tool, arguments)
		if !errors.Is(err, errOtherStyle) {
			return raw, err
		}
	}
	var reasons []string
	failed := false
	for i, style := range styles {
		raw, err := style.call(w, ctx, tool, arguments)
		if err == nil {
			w.mu.Lock()
			w.style = i
			w.mu.Unlock()
			return raw, nil
		}
		_, answered := errors.AsType[*refusal](err)
		switch {
		case errors.Is(err, errStatus):
			failed = true
		case !answered && !errors.Is(err, errOtherStyle):
			return nil, err // it can't be reached, in whatever style
		}
		reasons = append(reasons, fmt.Sprintf("%s: %.100s", style.name, err))
	}
	if failed {
		return nil, errors.New(strings.Join(reasons, "; "))
	}
	return nil, refuse(`is "url" right? It often ends in /mcp: %s`, strings.Join(reasons, "; "))
}

func (w *web) plain(ctx context.Context, tool string, arguments any) (json.RawMessage, error) {
	params, err := callParams(tool, arguments)
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(struct {
		JSONRPC string          `json:"jsonrpc"`
		ID      int             `json:"id"`
		Method  string          `json:"method"`
		Params  json.RawMessage `json:"params"`
	}{"2.0", 1, "tools/call", params})
	if err != nil {
		return nil, err
	}
	raw, err := w.post(ctx, w.url, body)
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
		return nil, fmt.Errorf("%w: the answer is not JSON-RPC", errOtherStyle)
	case answer.Result == nil:
		return nil, refuse("it says: %.200s (code %d)", answer.Error.Message, answer.Error.Code)
	}
	return answer.Result, nil
}

func (w *web) rest(ctx context.Context, tool string, arguments any) (json.RawMessage, error) {
	params, err := callParams(tool, arguments)
	if err != nil {
		return nil, err
	}
	raw, err := w.post(ctx, strings.TrimSuffix(w.url, "/")+"/tools/call", params)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Content json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil || answer.Content == nil {
		return nil, fmt.Errorf("%w: the answer is no tool result", errOtherStyle)
	}
	return raw, nil
}

// post returns the JSON that the server answers with.
func (w *web) post(ctx context.Context, at string, body []byte) (json.RawMessage, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, at, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	response, err := w.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if _, long := errors.AsType[*http.MaxBytesError](err); long {
		return nil, refuse("the answer is longer than %d bytes", maxAnswer)
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
		return nil, fmt.Errorf("%w: HTTP %s", errStatus, response.Status)
	case code != http.StatusOK:
		return nil, fmt.Errorf("%w: HTTP %s", errOtherStyle, response.Status)
	case !json.Valid(answer): // who writes a server by hand forgets its type
		return nil, fmt.Errorf("%w: the answer is not JSON (%s)", errOtherStyle, response.Header.Get("Content-Type"))
	}
	return answer, nil
}

// streamable calls over streamable HTTP.
func (w *web) streamable(ctx context.Context, tool string, arguments any) (json.RawMessage, error) {
	s, err := w.connect(ctx)
	if err != nil {
		return nil, err
	}
	result, err := s.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: arguments})
	said, ok := errors.AsType[*jsonrpc.Error](err)
	switch {
	case err == nil:
		return json.Marshal(result)
	case ok && said.Code >= -32700 && said.Code <= -32600 && !errors.Is(err, errRejected):
		return nil, refuse("%v", said)
	case ctx.Err() == nil:
		w.drop(s)
	}
	return nil, err
}

// errRejected is in the SDK's errors where the transport refused what was sent, as it
// does when the session is lost.
var errRejected = &jsonrpc.Error{Code: -32005}

var errClosed = errors.New("the router is stopping")

func (w *web) connect(ctx context.Context) (*mcp.ClientSession, error) {
	w.mu.Lock()
	s, closed := w.session, w.closed
	w.mu.Unlock()
	switch {
	case s != nil:
		return s, nil
	case closed:
		return nil, errClosed
	}
	client := mcp.NewClient(&mcp.Implementation{Name: "metarouter", Version: "1"}, &mcp.ClientOptions{Capabilities: &mcp.ClientCapabilities{}})
	s, err := client.Connect(ctx, &mcp.StreamableClientTransport{Endpoint: w.url, HTTPClient: w.client, MaxRetries: -1, DisableStandaloneSSE: true}, nil)
	if err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %w", errOtherStyle, err)
	}
	w.mu.Lock()
	now, closed := w.session, w.closed
	switch {
	case closed:
	case now == nil:
		w.session, now = s, s
	default: // somebody was quicker
		w.closing.Go(func() { s.Close() })
	}
	w.mu.Unlock()
	if closed {
		s.Close()
		return nil, errClosed
	}
	return now, nil
}

// drop gives up a session that no longer works.
func (w *web) drop(s *mcp.ClientSession) {
	w.mu.Lock()
	ours := w.session == s
	if ours {
		w.session = nil
	}
	w.mu.Unlock()
	if ours {
		w.closing.Go(func() { s.Close() })
	}
}

func (w *web) close() {
	w.mu.Lock()
	s := w.session
	w.closed = true
	w.mu.Unlock()
	if s != nil {
		w.drop(s)
	}
	w.closing.Wait()
	w.client.CloseIdleConnections()
}
