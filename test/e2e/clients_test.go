//go:build unix

package e2e

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/mcp-metarouter/metarouter/test/expect"
	"github.com/mcp-metarouter/metarouter/test/mcptest"
)

// A client is a plain client over stdio or HTTP.
type client interface {
	mcptest.Requester
	Initialize(ctx context.Context) (json.RawMessage, error)
	Discover(ctx context.Context) (json.RawMessage, error)
	Declare(capabilities string)
	OnRequest(mcptest.OnRequest)
	Exchange(ctx context.Context, method string, params any) (*mcptest.Exchange, error)
	Notify(method string, params any) error
}

// A handler answers the questions of servers.
type handler func(method string, params json.RawMessage) json.RawMessage

// A session is a client of one era that answers the questions of servers: requests in the legacy
// era, input_required results in the modern one.
type session struct {
	client
	modern        bool
	notifications <-chan mcptest.Notification
	answers       handler
}

// open begins a session; both eras declare the same capabilities.
func open(t *testing.T, c client, notifications <-chan mcptest.Notification, era, capabilities string, answers handler) *session {
	t.Helper()
	s := &session{client: c, modern: era == "modern", notifications: notifications, answers: answers}
	c.Declare(capabilities)
	c.OnRequest(func(method string, params json.RawMessage) (json.RawMessage, *mcptest.Error) {
		if method == "ping" {
			return json.RawMessage(`{}`), nil
		}
		if s.modern || answers == nil {
			return nil, &mcptest.Error{Code: -32601, Message: "this client does not answer " + method}
		}
		return answers(method, params), nil
	})
	begin := c.Initialize
	if s.modern {
		begin = c.Discover
	}
	_, err := begin(within(t))
	expect.OK(t, err, "open a session of the %s era", era)
	return s
}

// A pause is an input_required result.
type pause struct {
	ResultType    string
	InputRequests map[string]struct {
		Method string
		Params json.RawMessage
	}
	RequestState *string
}

// ask makes a request. In the modern era it repeats the request with the answers that the result
// requires, until a result is complete.
func (s *session) ask(ctx context.Context, method string, params map[string]any) (json.RawMessage, error) {
	for {
		result, err := s.Request(ctx, method, params)
		if err != nil || !s.modern {
			return result, err
		}
		var p pause
		if json.Unmarshal(result, &p) != nil || p.ResultType != "input_required" {
			return result, nil
		}
		params = s.answered(params, p)
	}
}

// answered returns the request with the answers that a result requires.
func (s *session) answered(params map[string]any, p pause) map[string]any {
	responses := map[string]json.RawMessage{}
	for key, q := range p.InputRequests {
		responses[key] = s.answers(q.Method, q.Params)
	}
	again := map[string]any{"inputResponses": responses}
	for key, value := range params {
		if key != "requestState" && key != "inputResponses" {
			again[key] = value
		}
	}
	if p.RequestState != nil {
		again["requestState"] = *p.RequestState
	}
	return again
}

// call calls a tool through all rounds.
func (s *session) call(ctx context.Context, tool string, arguments any) (json.RawMessage, error) {
	return s.ask(ctx, "tools/call", map[string]any{"name": tool, "arguments": arguments})
}
