package execute

import (
	"bytes"
	"container/list"
	"encoding/json"
	"sync"
	"time"

	"github.com/mcp-metarouter/metarouter/internal/session"
	"github.com/mcp-metarouter/metarouter/registry"
)

// maxCached bounds the results that are kept, in bytes.
const maxCached = 32 << 20

// A cache keeps the results of read-only and idempotent tools, for as long as the server's
// policy says and while their session lives: a server that was restarted or edited may
// answer differently.
type cache struct {
	mu    sync.Mutex // guards the fields below
	known map[cacheKey]*list.Element
	used  list.List // of *cached, the one used last in front
	size  int
}

// A cacheKey is one call of one client, since another client may not be allowed to see the
// result. A tool that has changed is another tool.
type cacheKey struct {
	client session.Client // by its home; nil for the router itself
	tool   *registry.NormalizedTool
	args   string // as they are sent
}

// cacheKey returns the key of the call, false if its result must not be used again: the
// policy or the tool's hints do not allow it, the client cannot be told from others, or
// the call asks for more than the tool with its arguments, such as a task.
func (x *execution) cacheKey() (key cacheKey, ok bool) {
	c := &x.call
	if x.delivery.policy.Cache <= 0 || !c.Tool.Reads() || !c.Tool.Hints.IsIdempotent() {
		return key, false
	}
	ok = true
	c.others(func(string, []byte) { ok = false })
	if !ok {
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
	key    cacheKey
	result json.RawMessage
	until  time.Time
	ended  <-chan struct{} // closed with the session
}

// isOver reports whether the result must not be used any more.
func (e *cached) isOver() bool {
	select {
	case <-e.ended:
		return true
	default:
		return time.Now().After(e.until)
	}
}

func (c *cache) find(key cacheKey) (result json.RawMessage, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.known[key]
	if e == nil {
		return nil, false
	}
	found := e.Value.(*cached)
	if found.isOver() {
		c.drop(e)
		return nil, false
	}
	c.used.MoveToFront(e)
	return found.result, true
}

// keep keeps a result until limit has passed or ended is closed.
func (c *cache) keep(key cacheKey, result json.RawMessage, limit time.Duration, ended <-chan struct{}) {
	entry := &cached{key, result, time.Now().Add(limit), ended}
	if entry.bytes() > maxCached/8 {
		return
	}
	entry.result = bytes.Clone(result) // it is a part of a line in a buffer, which is large
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.known[entry.key]; old != nil {
		c.drop(old)
	}
	if c.known == nil {
		c.known = make(map[cacheKey]*list.Element)
	}
	c.known[entry.key] = c.used.PushFront(entry)
	c.size += entry.bytes()
	for c.size > maxCached {
		c.drop(c.used.Back())
	}
}

// drop forgets a result. c.mu must be held.
func (c *cache) drop(e *list.Element) {
	entry := c.used.Remove(e).(*cached)
	delete(c.known, entry.key)
	c.size -= entry.bytes()
}

func (e *cached) bytes() int { return len(e.key.args) + len(e.result) + 200 }
