package classify

import (
	"context"
	"encoding/json"
	"errors"
	"sync"

	"github.com/cenkalti/backoff/v5"

	"github.com/mcp-metarouter/metarouter/session"
)

// An entry is an outside server that the router runs.
type entry struct {
	server, list string // its name, and the tool that lists categories
	servers      Sessions

	mu    sync.Mutex      // guards heard
	heard session.Session // which last said its list
}

// errAnew says that what the server answers may be about another list.
var errAnew = errors.New("it was started anew, and not yet asked for its list")

func (e *entry) call(ctx context.Context, tool string, arguments any) (json.RawMessage, error) {
	s, err := e.servers.Session(ctx, e.server, nil)
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	if tool == e.list {
		e.heard = s
	}
	anew := e.heard != s
	e.mu.Unlock()
	if anew {
		return nil, backoff.Permanent(errAnew)
	}
	params, err := callParams(tool, arguments)
	if err != nil {
		return nil, err
	}
	raw, err := s.Call(ctx, session.Request{Method: "tools/call", Params: params})
	if said, ok := errors.AsType[*session.Error](err); ok {
		return nil, refuse("%v", said)
	}
	return raw, err
}

func (*entry) close() {}

func callParams(tool string, arguments any) (json.RawMessage, error) {
	return json.Marshal(struct {
		Name      string `json:"name"`
		Arguments any    `json:"arguments"`
	}{tool, arguments})
}
