//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// A session is a link over HTTP. All of them share one router.
type session struct {
	url    string
	id     string // of the legacy era
	modern bool
	ledger *ledger
	slow   *slowness
	http   http.Client
}

// openSession opens a session with the router at a URL.
func openSession(ctx context.Context, url string, modern bool, l *ledger, slow *slowness) (*session, error) {
	s := &session{url: url, modern: modern, ledger: l, slow: slow}
	s.http.Transport = &http.Transport{MaxIdleConnsPerHost: 100}
	const hello = -1
	method, params := "initialize", initialize
	if modern {
		method, params = "server/discover", `{"_meta":`+modernMeta+`}`
	}
	if _, err := s.request(ctx, hello, method, params); err != nil {
		return nil, fmt.Errorf("handshake: %w", err)
	}
	if !modern {
		resp, err := s.do(ctx, http.MethodPost, "notifications/initialized", "", `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
		if err != nil {
			return nil, fmt.Errorf("handshake: %w", err)
		}
		resp.Body.Close()
	}
	return s, nil
}

func (s *session) call(ctx context.Context, c call) (answer, error) {
	m, err := s.request(ctx, c.id, "tools/call", c.params(s.modern))
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("%w: %w", errGone, err)
	}
	return m.answer(), err
}

func (s *session) request(ctx context.Context, id int, method, params string) (m message, err error) {
	resp, err := s.do(ctx, http.MethodPost, method, params, request(id, method, params))
	if err != nil {
		return m, err
	}
	defer resp.Body.Close()
	if id := resp.Header.Get("Mcp-Session-Id"); id != "" {
		s.id = id
	}
	came := false
	take := func(data []byte) error {
		var one message
		if err := json.Unmarshal(data, &one); err != nil {
			s.ledger.garbled(data)
			return nil
		}
		if n, ok := one.number(); ok {
			s.ledger.came(n)
			if n == id {
				m, came = one, true
			}
		}
		return nil
	}
	body := s.slow.reader(resp.Body)
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		// Read to the end, to notice a second answer.
		err = mcptest.Events(body, func(e mcptest.Event) error {
			if e.Data == "" {
				return nil
			}
			return take([]byte(e.Data))
		})
	} else {
		var all []byte
		if all, err = io.ReadAll(body); err == nil {
			err = take(all)
		}
	}
	switch {
	case came:
		return m, nil
	case err != nil:
		return m, err
	}
	return m, errors.New("HTTP status " + resp.Status + " without an answer")
}

func (s *session) do(ctx context.Context, verb, method, params, body string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, verb, s.url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if method != "" {
		r.Header = mcptest.StandardHeaders(method, json.RawMessage(params))
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	switch {
	case s.modern:
		r.Header.Set("MCP-Protocol-Version", modernVersion)
	case s.id != "":
		r.Header.Set("MCP-Protocol-Version", legacyVersion)
		r.Header.Set("Mcp-Session-Id", s.id)
	}
	return s.http.Do(r)
}

// close ends the session, if it is of the legacy era, and closes the connections.
func (s *session) close() error {
	defer s.http.CloseIdleConnections()
	if s.modern {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	resp, err := s.do(ctx, http.MethodDelete, "", "", "")
	if err != nil {
		return fmt.Errorf("end the session: %w", err)
	}
	resp.Body.Close()
	return nil
}

// rest closes idle connections, which hold descriptors in the router.
func (s *session) rest() { s.http.CloseIdleConnections() }
