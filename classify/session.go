package classify

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/cenkalti/backoff/v5"

	"github.com/mcp-metarouter/metarouter/internal/session"
)

// A sessionCaller calls an outside server that is an entry of the configuration, on the
// session that the router keeps with it.
type sessionCaller struct {
	server, listTool string
	servers          Sessions

	mu     sync.Mutex      // guards listed
	listed session.Session // the session whose list was read last
}

// errRestarted says that the server's answer may refer to a list that was not read.
var errRestarted = errors.New("it was restarted, and its list was not read yet")

// call implements [caller].
func (c *sessionCaller) call(ctx context.Context, tool string, arguments any) (json.RawMessage, error) {
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
	params, err := json.Marshal(toolCall{tool, arguments})
	if err != nil {
		return nil, err
	}
	raw, err := s.Call(ctx, session.Request{Method: "tools/call", Params: params})
	if refused, ok := errors.AsType[*session.Error](err); ok {
		return nil, badAnswer("%v", refused)
	}
	return raw, err
}

// close implements [caller]. The session belongs to the router.
func (*sessionCaller) close() {}

// A toolCall is the parameters of tools/call.
type toolCall struct {
	Name      string `json:"name"`
	Arguments any    `json:"arguments"`
}
