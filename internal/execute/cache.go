package execute

import (
	"bytes"
	"encoding/json"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/internal/signal"
	"github.com/mcp-metarouter/metarouter/registry"
)

// maxCached bounds the results that are kept, in bytes. If there are more, all are dropped.
const maxCached = 32 << 20

// A cache keeps the results of read-only and idempotent tools, for as long as the server's policy says and while their session lives: a server that
// was restarted or edited may answer differently.
type cache struct {
	mu    sync.Mutex // guards the fields below
	known map[cacheKey]*cached
	size  int
}

// A cacheKey is one call of one client, since another client may not be allowed to see the result. A tool that has changed is another tool.
type cacheKey struct {
	client session.Client // by its home; nil for the router itself
	tool   *registry.NormalizedTool
	args   string // as they are sent
}

// cacheKey returns the key of the call, false if its result must not be used again: the policy or the tool's hints do not allow it, the client cannot
// be told from others, or the call asks for more than the tool with its arguments, such as a task.
func (x *execution) cacheKey() (key cacheKey, ok bool) {
	c := &x.call
	if x.delivery.policy.Cache <= 0 || !c.Tool.Reads() || !c.Tool.Hints.IsIdempotent() || c.Others() != nil {
		return key, false
	}
	key = cacheKey{tool: c.Tool, args: string(x.sent)}
	if c.From != nil {
		if key.client = c.From.Home(); key.client == nil {
			return key, false
		}
	}
	return key, true
}

type cached struct {
	size   int // with its key
	result json.RawMessage
	until  time.Time
	ended  <-chan struct{} // closed with the session
}

func (c *cache) find(key cacheKey) (result json.RawMessage, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.known[key]
	if e == nil {
		return nil, false
	}
	if signal.IsClosed(e.ended) || time.Now().After(e.until) {
		c.size -= e.size
		delete(c.known, key)
		return nil, false
	}
	return e.result, true
}

// keep keeps a result until limit has passed or ended is closed.
func (c *cache) keep(key cacheKey, result json.RawMessage, limit time.Duration, ended <-chan struct{}) {
	size := len(key.args) + len(result) + 200
	if size > maxCached/8 {
		return
	}
	result = bytes.Clone(result) // it is a part of a line in a buffer, which is large
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.known[key]; old != nil {
		c.size -= old.size
	}
	if c.known == nil || c.size+size > maxCached {
		c.known, c.size = make(map[cacheKey]*cached), 0
	}
	c.known[key] = &cached{size, result, time.Now().Add(limit), ended}
	c.size += size
}

// forget drops the results of a client that has left: its key would keep all of it.
func (c *cache) forget(client session.Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, e := range c.known {
		if key.client == client {
			c.size -= e.size
			delete(c.known, key)
		}
	}
}
