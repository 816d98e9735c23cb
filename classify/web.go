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
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxAnswer is how much of an answer is read, in bytes.
const maxAnswer = 4 << 20

// A web is an outside server at a URL. It may speak plain JSON-RPC, which is tried
// first, the method in the path and the bare result (as vLLM semantic router's own
// client has it), or MCP's streamable HTTP of either era. Which of them is found out
// by the first call, and again when one no longer works.
type web struct {
	url    string
	client *http.Client

	closing sync.WaitGroup // of sessions that are given up

	mu      sync.Mutex         // guards what follows
	style   int                // of styles, that worked last; -1 if none has
	session *mcp.ClientSession // of streamable HTTP; nil if there is none
}

// A style is a way to call a tool. It fails with errOtherStyle if the server seems
// not to speak so.
type style func(w *web, ctx context.Context, tool string, arguments any) (json.RawMessage, error)

var styles = []style{(*web).plain, (*web).rest, (*web).streamable}

var (
	errOtherStyle = errors.New("it does not speak so")
	errStatus     = errors.New("it has failed")
)

// maxConnections is how many calls are made at once; others wait.
const maxConnections = 64

func newWeb(url string, headers map[string]string) *web {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxConnsPerHost, transport.MaxIdleConnsPerHost = maxConnections, maxConnections
	return &web{url: url, style: -1, client: &http.Client{
		Transport: withHeaders{transport, headers},
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

// withHeaders adds headers to requests.
type withHeaders struct {
	*http.Transport
	headers map[string]string
}

func (t withHeaders) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, value := range t.headers {
		r.Header.Set(name, value)
	}
	return t.Transport.RoundTrip(r)
}

func (w *web) call(ctx context.Context, tool string, arguments any) (json.RawMessage, error) {
	w.mu.Lock()
	known := w.style
	w.mu.Unlock()
	if known >= 0 {
		raw, err := styles[known](w, ctx, tool, arguments)
		if !errors.Is(err, errOtherStyle) {
			return raw, err
		}
	}
	var reasons []error
	for i, style := range styles {
		raw, err := style(w, ctx, tool, arguments)
		if err == nil {
			w.mu.Lock()
			w.style = i
			w.mu.Unlock()
			return raw, nil
		}
		_, answered := errors.AsType[*refusal](err)
		if !answered && !errors.Is(err, errOtherStyle) && !errors.Is(err, errStatus) {
			return nil, err // it can't be reached, in whatever style
		}
		reasons = append(reasons, err)
	}
	return nil, errors.Join(reasons...)
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
	return w.post(ctx, strings.TrimSuffix(w.url, "/")+"/tools/call", params)
}

// post returns the JSON that the server answers with.
func (w *web) post(ctx context.Context, url string, body []byte) (json.RawMessage, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
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
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, err
	case len(answer) > maxAnswer:
		return nil, refuse("the answer is longer than %d bytes", maxAnswer)
	}
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	switch code := response.StatusCode; {
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return nil, fmt.Errorf("HTTP %s: does it want a token? \"headers\" can be set", response.Status)
	case code == http.StatusRequestTimeout || code == http.StatusTooManyRequests || code >= 500:
		return nil, fmt.Errorf("%w: HTTP %s", errStatus, response.Status)
	case code != http.StatusOK || kind != "application/json" || !json.Valid(answer):
		return nil, fmt.Errorf("%w: HTTP %s, %s", errOtherStyle, response.Status, kind)
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
	if err != nil {
		if ctx.Err() == nil {
			w.drop(s)
		}
		return nil, err
	}
	return json.Marshal(result)
}

func (w *web) connect(ctx context.Context) (*mcp.ClientSession, error) {
	w.mu.Lock()
	s := w.session
	w.mu.Unlock()
	if s != nil {
		return s, nil
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
	defer w.mu.Unlock()
	if w.session != nil { // somebody was quicker
		w.closing.Go(func() { s.Close() })
		return w.session, nil
	}
	w.session = s
	return s, nil
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
	w.mu.Unlock()
	if s != nil {
		w.drop(s)
	}
	w.closing.Wait()
	w.client.CloseIdleConnections()
}
