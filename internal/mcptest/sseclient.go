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
)

// SSEClient is a plain MCP client of one server over HTTP with SSE as of
// 2024-11-05, where all answers come on one stream. Of what the server sends by
// itself, requests are answered as Client does it, and notifications are passed
// over. It may be used from several goroutines.
type SSEClient struct {
	post string // URL
	http *http.Client

	mu      sync.Mutex // guards what follows
	next    int
	pending map[string]chan message // by id
	ended   bool                    // nothing more comes from the server
}

// NewSSEClient opens the stream at url, which ends with the test.
func NewSSEClient(ctx context.Context, t testing.TB, url string) (*SSEClient, error) {
	c := &SSEClient{
		http:    &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 100}},
		pending: map[string]chan message{},
	}
	life, end := context.WithCancel(context.Background())
	stop := context.AfterFunc(ctx, end) // until the server has said where to post
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
	return result, c.send(ctx, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
}

// Call asks for tools/call.
func (c *SSEClient) Call(ctx context.Context, tool string, arguments any) (json.RawMessage, error) {
	return c.Request(ctx, "tools/call", callParams(tool, arguments))
}

// Request is Client.Request, but that the server isn't told when ctx ends. The
// error is a *StatusError if the server does not accept the request.
func (c *SSEClient) Request(ctx context.Context, method string, params any) (json.RawMessage, error) {
	answer := make(chan message, 1)
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

	body := `{"jsonrpc":"2.0","id":` + id + `,"method":` + string(encode(method))
	if raw := marshal(params); raw != nil {
		body += `,"params":` + string(raw)
	}
	if err := c.send(ctx, body+"}"); err != nil {
		return nil, err
	}
	select {
	case m, ok := <-answer:
		switch {
		case !ok:
			return nil, ErrEnded
		case m.Error != nil:
			return nil, newClientError(m.Error, 0)
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

// read hands out the stream's messages until it ends.
func (c *SSEClient) read(stream io.Reader, endpoint chan<- string) {
	Events(stream, func(e Event) error {
		if e.Name == "endpoint" {
			select {
			case endpoint <- e.Data:
			default: // there is one
			}
			return nil
		}
		var m message
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
