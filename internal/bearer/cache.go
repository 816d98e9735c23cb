package bearer

import (
	"container/list"
	"crypto/sha256"
	"sync"
	"time"
)

// A cache keeps values by the hash of a token, each until its time. When it is full it drops the
// oldest.
type cache[T any] struct {
	most, mostBytes int

	mu    sync.Mutex // guards the fields below
	byKey map[[sha256.Size]byte]*list.Element
	order list.List // of *kept[T], the oldest first
	bytes int
}

type kept[T any] struct {
	key   [sha256.Size]byte
	value T
	until time.Time
	bytes int
}

func newCache[T any](most, mostBytes int) *cache[T] {
	return &cache[T]{most: most, mostBytes: mostBytes, byKey: map[[sha256.Size]byte]*list.Element{}}
}

func (c *cache[T]) get(key [sha256.Size]byte) (value T, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.byKey[key]
	if !ok {
		return value, false
	}
	k := e.Value.(*kept[T])
	if !time.Now().Before(k.until) {
		c.remove(e)
		return value, false
	}
	return k.value, true
}

// put keeps the value, which takes so many bytes.
func (c *cache[T]) put(key [sha256.Size]byte, value T, until time.Time, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.byKey[key]; ok {
		c.remove(e)
	}
	c.byKey[key] = c.order.PushBack(&kept[T]{key, value, until, bytes})
	c.bytes += bytes
	for len(c.byKey) > c.most || c.bytes > c.mostBytes {
		c.remove(c.order.Front())
	}
}

func (c *cache[T]) drop(key [sha256.Size]byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e, ok := c.byKey[key]; ok {
		c.remove(e)
	}
}

// remove forgets an element. c.mu must be held.
func (c *cache[T]) remove(e *list.Element) {
	k := c.order.Remove(e).(*kept[T])
	delete(c.byKey, k.key)
	c.bytes -= k.bytes
}
