// Package endpoint sends requests to an OpenAI-compatible HTTP API that the configuration
// names, such as that of Ollama, llama.cpp, TEI or a cloud.
//
// The API is an outsider: its answers are bounded and never trusted, it gets its headers from
// one origin only (no redirect is followed), and while it fails it is left alone (see
// [Breaker]). Errors show neither headers nor the secret parts of the URL.
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
)

// A Client sends requests to one API. Its methods may be called by many goroutines at once.
// It must be closed.
type Client struct {
	base    *url.URL // has the user, the password and the query
	headers map[string]string
	http    *http.Client
}

// New returns a client of the API at the base URL, such as http://127.0.0.1:11434/v1. It sends
// nothing yet.
func New(base string, headers map[string]string) (*Client, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" {
		return nil, errors.New(`the URL is not valid; write "http://host/v1"`) // err may show a password
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxConnsPerHost, transport.MaxIdleConnsPerHost = maxInFlight, maxInFlight
	return &Client{base: u, headers: headers, http: &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Close closes connections that are not in use.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Post sends the request as JSON to the path below the base URL, and decodes the answer, of at
// most so many bytes, into answer.
func (c *Client) Post(ctx context.Context, path string, request, answer any, most int64) error {
	body, err := json.Marshal(request)
	if err != nil {
		return err
	}
	at := c.at(path)
	raw, err := c.post(ctx, at, body, most)
	if err == nil && json.Unmarshal(raw, answer) != nil {
		err = errors.New("the answer is not JSON as the API of OpenAI has it")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", (&url.URL{Scheme: at.Scheme, Host: at.Host, Path: at.Path}).String(), err)
	}
	return nil
}

// at returns the URL of a path, such as "/chat/completions". A base URL may have it already.
func (c *Client) at(path string) *url.URL {
	u := *c.base
	u.Path = strings.TrimSuffix(strings.TrimSuffix(u.Path, "/"), path) + path
	u.RawPath, u.Fragment = "", ""
	return &u
}

func (c *Client) post(ctx context.Context, to *url.URL, body []byte, most int64) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, to.String(), bytes.NewReader(body))
	if err != nil {
		return nil, errors.New("the URL is not valid")
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json")
	for name, value := range c.headers {
		request.Header.Set(name, value)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, withoutURL(err)
	}
	defer response.Body.Close()
	switch code := response.StatusCode; {
	case code == http.StatusUnauthorized || code == http.StatusForbidden:
		return nil, fmt.Errorf(`HTTP %d; does it want a token? Set "headers"`, code)
	case code == http.StatusNotFound:
		return nil, fmt.Errorf(`HTTP %d; are "url" and "model" right? The URL often ends in /v1`, code)
	case code/100 == 3:
		return nil, fmt.Errorf(`HTTP %d; redirects are not followed: write the final URL`, code)
	case code != http.StatusOK:
		return nil, fmt.Errorf("HTTP %d", code)
	}
	raw, err := io.ReadAll(io.LimitReader(response.Body, most+1))
	switch {
	case err != nil:
		return nil, withoutURL(err)
	case int64(len(raw)) > most:
		return nil, fmt.Errorf("the answer is longer than %d bytes", most)
	}
	return raw, nil
}

// withoutURL returns the reason in an error of package http, whose URL may be secret.
func withoutURL(err error) error {
	if outer, ok := errors.AsType[*url.Error](err); ok {
		return outer.Err
	}
	return err
}
