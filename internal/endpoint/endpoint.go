// Package endpoint asks a model behind an OpenAI-compatible HTTP API that the configuration names,
// such as Ollama, llama.cpp, TEI or a cloud, for vectors of texts.
//
// Answers are bounded and checked. The headers go to one origin: no redirect is followed. While the
// API fails, a [Breaker] makes pauses. Errors show neither headers nor the secret parts of the URL.
package endpoint

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
	"sync/atomic"

	"github.com/mcp-metarouter/metarouter/internal/urls"
)

const maxAnswer = 16 << 20 // bytes

// A Client asks one model. Many goroutines may use it. It must be closed.
type Client struct {
	base    *url.URL // has the user, the password and the query
	model   string
	headers map[string]string
	http    *http.Client
	breaker Breaker       // so that no search waits while the API is slow
	batch   atomic.Int64  // how many texts the API takes in one request, if it refused more; see embed
	Late    chan struct{} // has something after a Task that has failed: the model may be loaded now
}

// New returns a client of the model at the base URL of the API, such as http://127.0.0.1:11434/v1.
// It sends nothing yet.
func New(base, model string, headers map[string]string) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" {
		return nil, errors.New(`the URL is not valid; write "http://host/v1"`) // err may show a password
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxConnsPerHost, transport.MaxIdleConnsPerHost = maxInFlight, maxInFlight
	refuse := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &Client{base: u, model: model, headers: headers, http: &http.Client{Transport: transport, CheckRedirect: refuse}, Late: make(chan struct{}, 1)}, nil
}

// Close closes connections that are not in use.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// post sends the request as JSON to a path below the base URL, which may have the path already, and
// decodes the response into answer.
func (c *Client) post(ctx context.Context, path string, request, answer any) error {
	to := *c.base
	to.Path = strings.TrimSuffix(strings.TrimSuffix(to.Path, "/"), path) + path
	to.RawPath, to.Fragment = "", ""
	raw, err := c.send(ctx, to.String(), request)
	if err = urls.Cause(err); err == nil && json.Unmarshal(raw, answer) != nil {
		err = errors.New("the answer is not JSON as the API of OpenAI has it")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", (&url.URL{Scheme: to.Scheme, Host: to.Host, Path: to.Path}).String(), err)
	}
	return nil
}

func (c *Client) send(ctx context.Context, to string, request any) ([]byte, error) {
	body, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json")
	for name, value := range c.headers {
		r.Header.Set(name, value)
	}
	response, err := c.http.Do(r)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, status(response.StatusCode)
	}
	raw, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	if len(raw) > maxAnswer {
		return nil, fmt.Errorf("the answer is longer than %d bytes", maxAnswer)
	}
	return raw, err
}

// A status is the HTTP status of a response that reports a failure.
type status int

func (s status) Error() string {
	hint := ""
	switch {
	case s == http.StatusUnauthorized || s == http.StatusForbidden:
		hint = `; does it want a token? Set "headers"`
	case s == http.StatusNotFound:
		hint = `; are "url" and "model" right? The URL often ends in /v1`
	case s/100 == 3:
		hint = `; redirects are not followed: write the final URL`
	}
	return fmt.Sprintf("HTTP %d%s", int(s), hint)
}

// refused reports whether another request may succeed where this one failed. Some APIs answer 500
// to a request that is too large.
func refused(err error) bool {
	s, ok := errors.AsType[status](err)
	return ok && (s == http.StatusBadRequest || s == http.StatusRequestEntityTooLarge || s == http.StatusUnprocessableEntity || s >= 500)
}
