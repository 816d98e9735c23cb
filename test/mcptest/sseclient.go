package mcptest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/internal/protocol"
)

// SSEClient is a plain MCP client of one server over HTTP with SSE as of 2024-11-05, where
// all answers come on one stream. It answers the server's requests as a [Client] without
// OnRequest does, and ignores notifications. It may be used by several goroutines at once.
type SSEClient struct {
	post string // URL
	http *http.Client

	mu      sync.Mutex // guards the fields below
	next    int
	pending map[string]chan protocol.Message // by id
	ended   bool                             // the server sends nothing more
}

// NewSSEClient opens the stream at url, which ends with the test.
func NewSSEClient(ctx context.Context, t testing.TB, url string) (*SSEClient, error) {
	c := &SSEClient{
		http:    &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}},
		pending: map[string]chan protocol.Message{},
	}
	life, end := context.WithCancel(context.Background())
	stop := context.AfterFunc(ctx, end) // until the server has sent the URL to post to
	r, err := http.NewRequestWithContext(life, http.MethodGet, url, nil)
	if err != nil {
		end()
		return nil, err
	}
	r.Header.Set("Accept", "text/event-stream")
	resp, err := c.http.Do(r)
	if err != nil {
		end()
		return nil, err
	}
	endpoint, done := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(done)
		defer resp.Body.Close()
		c.read(resp.Body, endpoint)
	}()
	t.Cleanup(func() {
		end()
		<-done
		c.http.CloseIdleConnections()
	})
	select {
	case path := <-endpoint:
		to, err := r.URL.Parse(path)
		if err != nil {
			return nil, err
		}
		stop()
		c.post = to.String()
		return c, nil
	case <-done:
		return nil, fmt.Errorf("%s ended (status %d) without an endpoint: %w", url, resp.StatusCode, ErrEnded)
	}
}

// Initialize does the handshake and returns the result of initialize.
func (c *SSEClient) Initialize(ctx context.Context) (json.RawMessage, error) {
	result, err := c.Request(ctx, "initialize", initializeParams(nil))
	if err != nil {
		return nil, err
	}
	return result, c.send(ctx, message("", "notifications/initialized", nil))
}

// Call requests tools/call.
func (c *SSEClient) Call(ctx context.Context, tool string, arguments any) (json.RawMessage, error) {
	return c.Request(ctx, "tools/call", callParams(tool, arguments))
}

// Request sends a request and waits for its result, as [Client.Request] does, but does not
// cancel the request when the context ends. The error is a [*StatusError] if the server does
// not accept the request.
func (c *SSEClient) Request(ctx context.Context, method string, params any) (json.RawMessage, error) {
	answer := make(chan protocol.Message, 1)
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		return nil, ErrEnded
	}
	c.next++
	id := strconv.Itoa(c.next)
	c.pending[id] = answer
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.pending, id)
		c.mu.Unlock()
	}()

	if err := c.send(ctx, message(id, method, marshal(params))); err != nil {
		return nil, err
	}
	select {
	case m, ok := <-answer:
		switch {
		case !ok:
			return nil, ErrEnded
		case m.Error != nil:
			return nil, newError(m.Error, 0)
		}
		return m.Result, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (c *SSEClient) send(ctx context.Context, body string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, c.post, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(resp.Body)
	if resp.StatusCode >= 300 {
		return &StatusError{resp.StatusCode, resp.Header, string(text)}
	}
	return nil
}

// read handles the stream's messages until it ends.
func (c *SSEClient) read(stream io.Reader, endpoint chan<- string) {
	Events(stream, func(e Event) error {
		if e.Name == "endpoint" {
			select {
			case endpoint <- e.Data:
			default: // only the first counts
			}
			return nil
		}
		var m protocol.Message
		if err := json.Unmarshal([]byte(e.Data), &m); err != nil {
			return err
		}
		switch {
		case m.Method != "" && m.ID != nil:
			go c.send(context.Background(), response(m, nil))
		case m.Method == "":
			c.mu.Lock()
			defer c.mu.Unlock()
			if answer, ok := c.pending[string(m.ID)]; ok {
				delete(c.pending, string(m.ID))
				answer <- m
			}
		}
		return nil
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	for _, answer := range c.pending {
		close(answer)
	}
}
